#include "base/remove_folder.h"

#include <filesystem>

namespace trireme {

bool remove_folder(const std::string& path) {
  std::error_code error;
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::filesystem::remove_all(path, error);
    if (!error) return true;
  }
  return false;
}

}  // namespace trireme
