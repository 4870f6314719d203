#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "comm/tcp/socket.h"

namespace trireme {

// Holds a lock (flock) on a file of a folder that several hosts use. The lock ends with the
// process. The file stays, and names the holder. Unlike FileLock, take() waits for the lock, and it
// refuses a file system without locks. Move-only.
class FolderLock {
 public:
  // Returns an error at the deadline, which names the holder.
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
