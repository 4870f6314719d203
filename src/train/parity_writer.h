#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "checkpoint/hosts_record.h"
#include "comm/group.h"
#include "train/host_places.h"

namespace trireme {

// Makes the parity of checkpoints in the memory of several hosts. The ranks of a lane of a group of
// hosts (HostsRecord) send each other the pieces of their shards and add them up.
class ParityWriter {
 public:
  // All ranks call it. `shard_bytes` is the length of this rank's shard, which is the same in every
  // checkpoint; `buffer` has kMoveBufferBytes.
  ParityWriter(Group& ranks, const HostPlaces& places, int64_t shard_bytes,
               std::span<std::byte> buffer, double timeout_s);

  // Writes the parity files of the lanes for which this rank acts. All ranks call it, each after it
  // has written its shard, or has failed to. The thread of a job may call it beside training.
  // Throws CommError if a rank has failed.
  Status write(const std::string& folder, const HostsRecord& record, Progress& progress,
               const std::atomic<bool>& is_abandoned);

  // Waits until all ranks have called it. Returns true if all have succeeded. Jobs call it, as
  // write(). While their ranks wait for the jobs (BackgroundJob::wait), it fails if none of those
  // that have not called it makes progress for ten times the deadline, and names one of them.
  bool all_succeed(bool own, Progress& progress, const std::atomic<bool>& is_abandoned);

  // What this rank has sent so far.
  int64_t sent_bytes() const { return ranks_->traffic(Collective::Send).sent_bytes; }

 private:
  Status write_lane(int lane, const std::string& folder, const HostsRecord& record,
                    Progress& progress, const std::atomic<bool>& is_abandoned);
  int rank_for(const HostsRecord& record, int host, int lane) const;
  // The ranks that do not wait for others: one of them, and the progress of all.
  struct Others {
    int late = 0;
    uint64_t progress = 0;
  };
  Others others() const;

  std::unique_ptr<Group> ranks_;  // used by jobs alone
  int own_host_;
  std::vector<int64_t> shard_bytes_;  // [rank]; 0: it writes no shard
  std::span<std::byte> buffer_;
  double timeout_s_;
};

}  // namespace trireme
