#include "store/folder_undo.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/remove_folder.h"
#include "store/chunk_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Returns the highest folder of a path that does not exist, or "".
std::string first_missing(const std::string& folder) {
  std::error_code error;
  fs::path missing;
  for (fs::path at = folder; !at.empty() && !fs::exists(at, error) && !error;
       at = at.parent_path()) {
    missing = at;
  }
  return missing.string();
}

}  // namespace

FolderUndo::~FolderUndo() {
  if (is_kept_) return;
  for (const std::string& folder : folders_) {
    // Another command may have made its store here meanwhile.
    const Result<FolderIdentity> identity = read_identity(folder);
    if (identity.ok() && identity->store != store_) continue;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->path().filename() != "lost+found") remove_folder(entry->path().string());
    }
  }
  for (const std::string& folder : made_) remove_folder(folder);
}

Status FolderUndo::make_folder(const std::string& folder) {
  const std::string missing = first_missing(folder);
  if (!missing.empty()) made_.push_back(missing);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return damaged(fmt::format("{}: cannot create: {}", folder, error.message()));
  if (!is_empty_folder(folder)) {
    return usage(folder + " is not an empty folder; each disk of a store begins empty");
  }
  folders_.push_back(folder);
  return Done{};
}

}  // namespace trireme
