#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "comm/tcp/socket.h"

namespace trireme {

// Holds a lock (flock) on a file, which ends with its process. The file stays, and says who holds
// it. Unlike FileLock it waits, and a file system without locks is refused. Move-only.
class FolderLock {
 public:
  // An error at the deadline names the holder.
  static Result<FolderLock> take(const std::string& path, Deadline deadline);
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  std::string holder() const;
  void say_holder() const;

  int fd_;
};

}  // namespace trireme
