#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agent/rank_link.h"
#include "base/result.h"

namespace trireme {

// Folder in the folder of a run on several hosts. It has the fence of the run (WriteFence), and its
// Coord if no other one is named.
inline constexpr const char* kCoordFolder = "coord";

// The right of a rank to take part in its epoch. On several hosts it must be renewed: the agent
// shows in the page until when the ranks may run, and which epochs are over. On one host, or
// without an agent, the right has no end.
class RunRight {
 public:
  // `link` may be null. `epoch` is that of the rank, and `run_dir` the folder of the run.
  RunRight(const RankLink* link, uint64_t epoch, const std::string& run_dir);

  bool is_limited() const;  // the job has several hosts
  // True once the agent has ended the epoch, so that this rank must wait for a later one.
  bool is_over() const;
  // Waits until the rank may run. Throws Failure if its epoch is over, or if the agent says nothing
  // for two minutes.
  void await() const;
  // Throws Failure unless the rank may run now.
  void require() const;
  // Calls `publish`, which makes a file of the run visible, if the epoch is the newest one of the
  // folder. `publish` must be short.
  Status publish(const std::function<Status()>& publish) const;

 private:
  bool is_valid_now() const;

  const JobPage* page_;  // null: no agent
  uint64_t epoch_;
  std::string fence_folder_;
};

}  // namespace trireme
