#include "base/absolute_folder.h"

#include <filesystem>

namespace trireme {

std::string absolute_folder(const std::string& path) {
  const auto absolute = std::filesystem::absolute(path).lexically_normal();
  return (absolute.has_filename() ? absolute : absolute.parent_path()).string();
}

}  // namespace trireme
