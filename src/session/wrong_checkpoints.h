#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// Checkpoints after a step may hold the results of a rank that has computed wrong numbers, or make
// every run fail that resumes from them. They are set aside once the run has resumed from another
// one.

// Returns the step of the newest checkpoint in `roots` of an earlier step than `step`; -1: there is
// none. Its files are not read.
int64_t newest_checkpoint_before(const std::vector<std::string>& roots, int64_t step);

struct WrongCheckpoints {
  std::vector<std::string> renamed;  // their new paths
  std::vector<std::string> kept;     // paths that could not be renamed, each with the reason
};

// Renames those of later steps in `roots`, so that no run resumes from them: "step-000200" becomes
// "wrong-step-000200", or "wrong-step-000200-2" if there is one already.
WrongCheckpoints set_wrong_checkpoints_aside(const std::vector<std::string>& roots,
                                             int64_t clean_step);
// Returns the warning about those that could not be renamed; "": there are none.
std::string warning_about_kept(const WrongCheckpoints& wrong);
// Removes those of later steps in a folder of checkpoints in memory, with those of its guests.
void remove_wrong_checkpoints(const std::string& memory_folder, int64_t clean_step);

}  // namespace trireme
