#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// Makes the folders of a new store. Unless it is told to keep them, it restores them in its
// destructor: those that were missing are removed, and those that were empty are empty again. What
// another command has put there meanwhile stays.
class FolderUndo {
 public:
  // `store`: the number of the new store.
  explicit FolderUndo(uint64_t store) : store_(store) {}
  ~FolderUndo();
  FolderUndo(const FolderUndo&) = delete;
  FolderUndo& operator=(const FolderUndo&) = delete;

  // Makes a folder with those above it. Refuses one that is not empty.
  Status make_folder(const std::string& folder);
  void keep() { is_kept_ = true; }

 private:
  bool is_ours(const std::string& folder) const;

  const uint64_t store_;
  std::vector<std::string> folders_;  // that were empty or missing
  std::vector<std::string> made_;     // that were missing, also above; the highest ones first
  bool is_kept_ = false;
};

}  // namespace trireme
