#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/background_job.h"
#include "checkpoint/host_part_writer.h"
#include "checkpoint/memory_shards.h"
#include "checkpoint/state_shard.h"
#include "schema/parity_code.h"
#include "train/checkpoint_saver.h"
#include "train/copy_exchange.h"
#include "train/host_places.h"
#include "train/parity_writer.h"

namespace trireme {

// Where the ranks of a job keep checkpoints in memory.
struct MemoryTier {
  MemoryPlace place;  // of this rank
  uint64_t job = 0;   // a number of the job; only that of the first rank is used
  uint64_t epoch = 1;
  ParityChoice parity;
  double timeout_s = 60.0;  // of the exchange of parity, without a byte from a peer
};

// Keeps the newest checkpoint of a run in the memory of its hosts, from which the job resumes if it
// loses ranks or hosts. All ranks call its functions in the same order, between two steps. The
// update of a step writes the state that only the optimizer reads to other memory, where the former
// state stays as a checkpoint, and copies the rest while it is in registers or caches
// (MemoryShards, Optimizer::bind_copies). What it cannot copy is copied while training waits.
// Everything else is done by one thread beside the next step: parity is exchanged with other hosts,
// and the first rank of every host writes and names the host's part. The ranks learn from the
// exchange of the next step whether all of it is done, so they make no call of their own. If it is
// not done, the next checkpoint is skipped.
class MemorySaver {
 public:
  // `tell` gets a sentence if saving fails or is slower than a step, or if a failure domain is too
  // large for the parity; only that of the first rank is called.
  MemorySaver(Engine& engine, const MemoryTier& tier, CheckpointSaver::MakeRequest request,
              std::function<void(const std::string&)> tell);
  ~MemorySaver();
  MemorySaver(const MemorySaver&) = delete;
  MemorySaver& operator=(const MemorySaver&) = delete;

  // Before a step: says whether it will be followed by start(). Then its update makes copies.
  void expect_start(bool is_expected);
  // Begins a checkpoint. Returns false if it begins none, because the former one is still pending.
  bool start(const TrainPosition& position);
  // Waits for the checkpoint that is pending and commits it. After a failure, no checkpoint is
  // begun any more, and the former one stays.
  void finish();
  // Removes all checkpoints, because the run goes back to an older step and what follows it may
  // differ. All ranks call it before they restore that step.
  void remove_all();

  int64_t saved() const { return saved_; }
  // -1: none, or it is not followed by others any more.
  int64_t newest_step() const { return has_failed_ ? -1 : newest_step_; }
  // Calls of start() that have begun none, because the former one was pending.
  int64_t skipped() const { return skipped_; }
  // The greatest number of steps between two checkpoints; 0: there were no two.
  int64_t most_apart() const { return most_apart_; }
  // How many whole steps would have been repeated if a rank or host had been lost at the worst
  // moment until now, after `step`.
  int64_t most_redone(int64_t step) const {
    return newest_step_ < 0 ? most_redone_ : std::max(most_redone_, step - newest_step_);
  }
  double stall_s() const { return static_cast<double>(stall_ns_) * 1e-9; }
  // Bytes that this rank has sent for the parity of other hosts.
  int64_t sent_bytes() const { return parity_ == nullptr ? 0 : parity_->sent_bytes(); }

 private:
  // The error of a rank that could make its part while another one could not.
  static constexpr const char* kOtherRankFailed = "another rank could not make its part";

  // The checkpoint that is being made. Its job reads it.
  struct Pending {
    SaveRequest request;
    std::string folder;              // the temporary one
    std::string path;                // its final name
    std::vector<NamedShard> shards;  // of this host; empty on other ranks than the first one
    bool makes_file = false;         // the third one of the rank
    int64_t steps_since = 0;         // that have begun since
  };

  void take_places(const MemoryTier& tier);
  void hold_state(const MemoryTier& tier);
  void plan_exchange();
  bool is_keeper() const { return ranks_->rank() == places_.keeper(); }
  // Says for the exchange how far this rank's job is; all ranks take the sum (UpdateNote).
  int64_t own_note() const;
  void take_note(int64_t sum);
  void prepare_copies();
  Status copy_state();
  bool agree_on_copies(const Status& copied);
  // The job, on its own thread.
  Status make_part(Progress& progress);
  bool has_room_for_file() const;
  Status write_part(Progress& progress);
  void remove_older() const;
  // Waits for the pending checkpoint. Since it was begun, `steps_done` steps were done.
  void wait(int64_t steps_done);
  // The pending checkpoint is over on all ranks.
  void conclude(bool has_failed, int64_t steps_done);
  void fail(const std::string& why);

  Engine& engine_;
  std::unique_ptr<Group> ranks_;
  CheckpointSaver::MakeRequest request_;
  std::function<void(const std::string&)> tell_;
  HostPlaces places_;
  std::string memory_folder_;
  HostsRecord record_;                    // of the checkpoint that is written
  std::unique_ptr<MemoryShards> shards_;  // of this rank
  StateShard state_;
  std::span<std::byte> home_;  // where state lies that was moved to the shard; empty: nowhere
  std::unique_ptr<ParityWriter> parity_;  // absent: no host keeps parity
  std::optional<HostPartWriter> writer_;  // on the first rank of a host
  CopyExchange exchange_;
  std::optional<Pending> pending_;
  std::string newest_, older_;  // the last checkpoints that were committed, on this host
  int64_t newest_step_ = -1;
  bool is_expected_ = false;
  int waits_in_a_row_ = 0;   // updates that have waited for a checkpoint
  bool wants_file_ = false;  // the next job makes a third file
  bool has_failed_ = false;
  int64_t saved_ = 0, skipped_ = 0;
  int64_t most_apart_ = 0, most_redone_ = 0;
  int64_t stall_ns_ = 0;
  std::atomic<bool> is_abandoned_ = false;
  BackgroundJob job_;
};

}  // namespace trireme
