#include "store/folder_undo.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/remove_folder.h"
#include "store/folder_identity.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Returns the folders of a path that do not exist, the highest one first.
std::vector<fs::path> missing_folders(const std::string& folder) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path at = folder; !at.empty() && !fs::exists(at, error) && !error;
       at = at.parent_path()) {
    missing.push_back(at);
  }
  std::reverse(missing.begin(), missing.end());
  return missing;
}

}  // namespace

FolderUndo::~FolderUndo() {
  if (is_kept_) return;
  for (const std::string& folder : folders_) {
    if (!is_ours(folder)) continue;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->path().filename() != "lost+found") remove_folder(entry->path().string());
    }
  }
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
    std::error_code is_in_use;
    fs::remove(*folder, is_in_use);
  }
}

// Another command may have made its store in the folder meanwhile. A store.json that cannot be read
// may be that of another store.
bool FolderUndo::is_ours(const std::string& folder) const {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder + "/store.json", error);
  if (status.type() == fs::file_type::not_found) return true;
  const Result<FolderIdentity> identity = read_identity(folder);
  return identity.ok() && identity->store == store_;
}

Status FolderUndo::make_folder(const std::string& folder) {
  std::error_code error;
  for (const fs::path& missing : missing_folders(folder)) {
    if (fs::create_directory(missing, error)) made_.push_back(missing.string());
    if (error) break;
  }
  if (!error) fs::create_directories(folder, error);
  if (error) return damaged(fmt::format("{}: cannot create: {}", folder, error.message()));
  if (!is_empty_folder(folder)) {
    return usage(folder + " is not an empty folder; each disk of a store begins empty");
  }
  folders_.push_back(folder);
  return Done{};
}

}  // namespace trireme
