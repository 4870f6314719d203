// Preloaded into a program, makes fsync hang as on a disk that no longer answers: for every file
// whose path contains $HANG_FSYNC_OF, once the file $HANG_FSYNC_WHEN exists.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

extern "C" int fsync(int fd) {
  const char* wanted = std::getenv("HANG_FSYNC_OF");
  const char* when = std::getenv("HANG_FSYNC_WHEN");
  char path[4096] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (::readlink(link.c_str(), path, sizeof path - 1) > 0 && wanted != nullptr && when != nullptr &&
      std::strstr(path, wanted) != nullptr && ::access(when, F_OK) == 0) {
    while (true) ::sleep(1000);
  }
  using Fsync = int (*)(int);
  static const auto real = reinterpret_cast<Fsync>(::dlsym(RTLD_NEXT, "fsync"));
  return real(fd);
}
