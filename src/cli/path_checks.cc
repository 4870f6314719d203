#include "cli/path_checks.h"

#include <filesystem>

#include "checkpoint/find_checkpoint.h"

namespace trireme {

namespace fs = std::filesystem;

Status require_folder(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored) || names_best_checkpoint(path)) return Done{};
  if (fs::exists(path, ignored)) {
    return usage(path + ": a file; name the folder of a checkpoint or a run directory");
  }
  return Error{ErrorKind::Usage,
               path + ": no such folder; name a checkpoint or a run directory, such as runs/demo"};
}

bool is_own_model(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path + "/index.json", ignored) ||
         fs::is_directory(path + "/checkpoints", ignored);
}

Status require_new(const std::string& out) {
  std::error_code ignored;
  const bool has_content = fs::is_directory(out, ignored) ? !fs::is_empty(out, ignored)
                                                          : fs::is_regular_file(out, ignored);
  if (!has_content) return Done{};
  return Error{ErrorKind::Usage, out + " exists: choose another --out, or remove it"};
}

}  // namespace trireme
