#include "base/leftovers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp-";
constexpr int kMostWriters = 1000;  // limit for writers of one file at a time

// Skips digits. Returns false if there is none.
bool skip_digits(std::string_view& text) {
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(end);
  return end > 0;
}

std::vector<fs::path> temporaries_in(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(prefix) && is_temporary_name(name)) found.push_back(entry->path());
  }
  return found;
}

}  // namespace

std::string temporary_name(const std::string& path) {
  return path + std::string(kMark) + std::to_string(::getpid());
}

bool is_temporary_name(std::string_view name) {
  const size_t mark = name.rfind(kMark);
  if (mark == std::string_view::npos || mark == 0) return false;
  std::string_view rest = name.substr(mark + kMark.size());
  if (!skip_digits(rest)) return false;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    if (!skip_digits(rest)) return false;
  }
  return rest.empty() || rest == "-old";
}

bool is_still_at(int fd, const std::string& path) {
  struct stat held {
  }, named{};
  return ::fstat(fd, &held) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

bool take_ownership(int fd, const std::string& path) {
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  return is_still_at(fd, path);
}

int create_temporary(const std::string& target, int access, int mode, std::string& path) {
  path = temporary_name(target);
  for (int number = 1; true; ++number) {
    const int fd = ::open(path.c_str(), access | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0 && take_ownership(fd, path)) return fd;
    if (fd >= 0) {
      ::close(fd);
    } else if (errno != EEXIST || number > kMostWriters) {
      return -1;
    } else if (!remove_leftover(path)) {
      path = temporary_name(target) + "." + std::to_string(number);
    }
  }
}

bool remove_leftover(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return false;
  const int access = S_ISDIR(info.st_mode) ? O_RDONLY | O_DIRECTORY : O_RDWR;
  if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) return false;
  const int fd = ::open(path.c_str(), access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  bool is_removed = false;
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && is_still_at(fd, path)) {
    std::error_code error;
    fs::remove_all(path, error);
    is_removed = !error;
  }
  ::close(fd);
  return is_removed;
}

std::vector<std::string> remove_leftovers(const std::string& folder) {
  std::vector<std::string> removed;
  for (const fs::path& path : temporaries_in(folder, "")) {
    if (remove_leftover(path.string())) removed.push_back(path.string());
  }
  return removed;
}

void remove_leftovers_of(const std::string& path) {
  const fs::path target = path;
  const fs::path folder = target.parent_path();
  const std::string prefix = target.filename().string() + std::string(kMark);
  for (const fs::path& found : temporaries_in(folder.empty() ? "." : folder, prefix)) {
    remove_leftover(found.string());
  }
}

}  // namespace trireme
