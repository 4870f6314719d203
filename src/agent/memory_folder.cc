#include "agent/memory_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "agent/process_stat.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMemory = "/dev/shm";

// Folders have the user, the process and its start in their names. True if the name is that of a
// folder of this user whose process has ended.
bool is_left_behind(const std::string& name) {
  unsigned user = 0;
  int pid = 0;
  unsigned long long start = 0;
  char rest = 0;
  if (std::sscanf(name.c_str(), "trireme-%u-%d-%llu%c", &user, &pid, &start, &rest) != 3) {
    return false;
  }
  const auto stat = stat_of_process(pid);
  return user == ::getuid() && !(stat && stat->start == start);
}

void sweep() {
  std::error_code error;
  for (fs::directory_iterator it(kMemory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (is_left_behind(it->path().filename().string())) fs::remove_all(it->path(), ignored);
  }
}

}  // namespace

Result<MemoryFolder> MemoryFolder::make() {
  sweep();
  const auto own = stat_of_process(::getpid());
  const std::string path =
      fmt::format("{}/trireme-{}-{}-{}", kMemory, ::getuid(), ::getpid(), own ? own->start : 0);
  if (::mkdir(path.c_str(), 0700) != 0) {
    return Error{ErrorKind::Runtime,
                 fmt::format("{} cannot be made: {}; set checkpoint.memory_every = 0", path,
                             std::strerror(errno))};
  }
  return MemoryFolder(path);
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace trireme
