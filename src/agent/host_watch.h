#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "failures/failure_evidence.h"
#include "watch/blame.h"
#include "watch/rank_pages.h"
#include "watch/slow_ranks.h"

namespace trireme {

// A rank process that hangs, and why this is believed.
struct HangingRank {
  int64_t process = 0;
  std::string why;
};

// Watches the rank processes of this host from a thread of its own, which reads their pages every
// 10 ms: it finds ranks that hang or are slow, and collects what is known when a rank fails. A file
// of /proc or a disk that does not answer holds up this thread, but never its owner.
class HostWatch {
 public:
  HostWatch();
  ~HostWatch();  // waits a short time for evidence that is still being written
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  // The pages are shared with the thread, which may read them after the end of the process.
  void add(int64_t process, int pid, std::shared_ptr<SharedRankPages> pages);
  // The process has ended. Returns what is known about it if it `has_failed`; then evidence of the
  // whole host is collected, too.
  FailureEvidence remove(int64_t process, bool has_failed);

  // The ranks that hang and should be killed now: their evidence was collected, or has taken too
  // long.
  std::vector<HangingRank> take_hanging();
  std::vector<SlowRank> take_slow();
  // What the leader of the job should know now about the ranks of this host; nullopt: nothing new.
  std::optional<std::vector<WatchedProcess>> take_watched();
  // The process hangs, as other hosts have seen: it is treated like one that this host has blamed.
  void blame(int64_t process, const std::string& why);
  // Becomes readable when a rank hangs or is slow.
  int fd() const;

  // Writes the evidence that was collected last into the folder, and forgets it. `failure` is the
  // JSON object of the failure. It does not wait.
  void keep_evidence(const std::string& folder, const std::string& failure);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
};

}  // namespace trireme
