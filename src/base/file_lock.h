#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace trireme {

// A lock file that one process at a time holds. It contains the process number and host as text and
// is released when the process ends, however it ends. Move-only.
class FileLock {
 public:
  // Creates and locks the file without waiting. The error names the process that holds it.
  static Result<FileLock> take(const std::string& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  FileLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;  // removed at the end; "": not ours
  int fd_ = -1;
};

}  // namespace trireme
