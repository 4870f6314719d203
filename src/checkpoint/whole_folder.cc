#include "checkpoint/whole_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace trireme {

namespace fs = std::filesystem;

Status write_whole_folder(const std::string& path,
                          const std::function<Status(const std::string& temporary)>& fill) {
  std::error_code error;
  const fs::path target = fs::absolute(path).lexically_normal();
  const fs::path clean = target.has_filename() ? target : target.parent_path();
  if (fs::exists(clean, error) && !(fs::is_directory(clean, error) && fs::is_empty(clean, error))) {
    return Error{ErrorKind::Usage,
                 path + " exists and is not an empty folder: choose another --out"};
  }
  const std::string temporary = fmt::format("{}.tmp-{}", clean.string(), ::getpid());
  fs::remove_all(temporary, error);
  fs::create_directories(temporary, error);
  if (error) return Error{ErrorKind::Runtime, temporary + ": cannot create: " + error.message()};
  Status status = fill(temporary);
  if (status.ok()) status = sync_folder(temporary);
  if (status.ok()) {
    fs::remove(clean, error);
    fs::rename(temporary, clean, error);
    if (error) status = Error{ErrorKind::Runtime, path + ": cannot rename: " + error.message()};
  }
  if (!status.ok()) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    return status;
  }
  return sync_folder(clean.parent_path().string());
}

}  // namespace trireme
