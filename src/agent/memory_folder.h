#pragma once

#include <string>

#include "base/result.h"

namespace trireme {

// A folder in the memory of this host (tmpfs) that only its user may read. It outlives the ranks
// that write to it, and is removed with this object.
class MemoryFolder {
 public:
  // Removes the folders that killed processes of this user have left, and makes a new one.
  static Result<MemoryFolder> make();
  MemoryFolder(MemoryFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_ = ""; }
  MemoryFolder& operator=(MemoryFolder&&) = delete;
  ~MemoryFolder();

  const std::string& path() const { return path_; }

 private:
  explicit MemoryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace trireme
