#include "interchange/whole_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "base/absolute_folder.h"
#include "base/file.h"
#include "base/leftovers.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr int kMostWriters = 1000;  // limit for writers of the same folder at one time

// A new folder that this process locks (base/leftovers.h) while the object exists.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make(const std::string& target) {
    std::error_code error;
    fs::create_directories(fs::path(target).parent_path(), error);
    std::string path = temporary_name(target);
    for (int number = 1; number <= kMostWriters; ++number) {
      if (fs::create_directory(path, error)) {
        const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        TemporaryFolder folder(path, fd);
        if (fd >= 0 && take_ownership(fd, path)) return folder;
      } else if (error) {
        break;
      } else {
        path = temporary_name(target) + "." + std::to_string(number);
      }
    }
    return Error{ErrorKind::Damaged, path + ": cannot create: " + error.message()};
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    if (fd_ >= 0) ::close(fd_);
  }
  const std::string& path() const { return path_; }

 private:
  TemporaryFolder(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

}  // namespace

Status write_whole_folder(const std::string& path,
                          const std::function<Status(const std::string& temporary)>& fill) {
  std::error_code error;
  const fs::path clean = absolute_folder(path);
  if (fs::exists(clean, error) && !(fs::is_directory(clean, error) && fs::is_empty(clean, error))) {
    return Error{ErrorKind::Usage,
                 path + " exists and is not an empty folder: choose another --out"};
  }
  remove_leftovers_of(clean.string());
  TRIREME_TRY(made, TemporaryFolder::make(clean.string()));
  const std::string& temporary = made.path();
  Status status = fill(temporary);
  if (status.ok()) status = sync_folder(temporary);
  if (status.ok()) {
    fs::remove(clean, error);
    fs::rename(temporary, clean, error);
    if (error) status = Error{ErrorKind::Damaged, path + ": cannot rename: " + error.message()};
  }
  if (!status.ok()) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    return status;
  }
  return sync_folder(clean.parent_path().string());
}

}  // namespace trireme
