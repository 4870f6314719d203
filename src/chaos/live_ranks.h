#pragma once

#include <string>
#include <vector>

namespace trireme {

// A rank of a job of `trireme launch` whose process runs on this machine.
struct LiveRank {
  int pid = 0;
  int rank = 0;               // as its agent has started it
  std::string memory_folder;  // for checkpoints in memory; "": none
  int pages = -1;             // its descriptor of RankPages
};

// Returns the ranks whose run folder is `run_dir`, in the order of their processes. Only processes
// of this user are seen, or all if the user is root.
std::vector<LiveRank> live_ranks(const std::string& run_dir);

}  // namespace trireme
