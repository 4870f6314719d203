#include "base/guest_parts.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "guest-";

}  // namespace

// A name of a host may have any characters, but it must not lead into another folder.
std::string guest_folder(const std::string& root, const std::string& host) {
  std::string name(host);
  std::replace(name.begin(), name.end(), '/', '_');
  return root + "/" + std::string(kPrefix) + name;
}

std::vector<std::string> guest_folders(const std::string& root) {
  std::vector<std::string> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    if (entry.path().filename().string().starts_with(kPrefix)) {
      folders.push_back(entry.path().string());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

void remove_guests(const std::string& root) {
  std::error_code ignored;
  for (const std::string& folder : guest_folders(root)) fs::remove_all(folder, ignored);
}

}  // namespace trireme
