#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "comm/backend.h"
#include "comm/waited_time.h"

namespace trireme {

// Watches the ranks of this process from its own thread, because a rank that hangs in a call of the
// operating system or of MPI cannot act itself. It aborts all ranks
// * if a rank shows a call (Progress) that makes no progress for progress_timeout_s,
// * if the process was asked to stop and such a call makes no progress for a few seconds.
// It calls on_hang if this process cannot end by itself: a rank has not returned some seconds after
// an abort, or the backend does not finish after all ranks have returned.
class RankWatch {
 public:
  // Watches ranks first_rank, first_rank + 1, ... Without options.on_hang nothing is watched.
  RankWatch(Fabric& fabric, int first_rank, int num_ranks, const WorldOptions& options);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

 private:
  // How long a rank has shown the same call without progress.
  struct Watched {
    int rank = 0;
    uint64_t progress = 0;
    WaitedTime since_progress;
    std::optional<WaitedTime> since_stop;  // also counted since the process was asked to stop
  };

  void live();
  void look(int64_t now_ns);
  void look_at_call(Watched& watched, int64_t now_ns);
  bool have_all_returned() const;
  void hang(const Error& error);

  Fabric& fabric_;
  const WorldOptions& options_;
  std::vector<Watched> ranks_;
  std::optional<WaitedTime> since_abort_;
  std::optional<WaitedTime> since_return_;
  bool is_reported_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace trireme
