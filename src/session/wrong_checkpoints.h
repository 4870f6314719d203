#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// Checkpoints may hold the results of a rank that has computed wrong numbers since `clean_step`.

struct WrongCheckpoints {
  std::vector<std::string> renamed;  // their new paths
  std::vector<std::string> kept;     // paths that could not be renamed, each with the reason
};

// Renames those of later steps in `roots`, so that no run resumes from them: "step-000200" becomes
// "wrong-step-000200". Returns nullopt and renames nothing if no checkpoint of `clean_step` or an
// earlier step is left, because the run would begin from nothing.
std::optional<WrongCheckpoints> set_wrong_checkpoints_aside(const std::vector<std::string>& roots,
                                                            int64_t clean_step);
// Removes those of later steps in a folder of checkpoints in memory.
void remove_wrong_checkpoints(const std::string& memory_folder, int64_t clean_step);

}  // namespace trireme
