#include "checkpoint/find_checkpoint.h"

#include <filesystem>

namespace trireme {

Result<Checkpoint> find_checkpoint(const std::string& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path + "/checkpoints")) return Checkpoint::open(path);
  TRIREME_TRY(latest, find_latest_checkpoint(path + "/checkpoints"));
  if (latest.path.empty()) {
    return Error{ErrorKind::Damaged, path + "/checkpoints holds no checkpoint that opens"};
  }
  return Checkpoint::open(latest.path);
}

}  // namespace trireme
