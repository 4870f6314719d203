#include "store/mount_point.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>

namespace trireme {

std::string mount_point_of(const std::string& path) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::canonical(path, error);
  struct stat here = {};
  if (error || ::stat(at.c_str(), &here) != 0) return "";
  while (at.has_relative_path()) {
    const std::filesystem::path above = at.parent_path();
    struct stat parent = {};
    if (::stat(above.c_str(), &parent) != 0 || parent.st_dev != here.st_dev) break;
    at = above;
  }
  return at.string();
}

int64_t free_bytes_of(const std::string& folder) {
  struct statvfs room = {};
  if (::statvfs(folder.c_str(), &room) != 0) return 0;
  return int64_t(room.f_bavail) * int64_t(room.f_frsize);
}

}  // namespace trireme
