#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace trireme {

// A file that one process at a time holds, with its number and host as text; free again when the
// process ends, however it ends. Move-only.
class FileLock {
 public:
  // Refuses, naming the holder, where another process has it; does not wait. Makes the file.
  static Result<FileLock> take(const std::string& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  FileLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;  // to be removed in the end; "": not ours
  int fd_ = -1;
};

}  // namespace trireme
