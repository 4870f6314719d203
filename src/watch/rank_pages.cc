#include "watch/rank_pages.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trireme {
namespace {

Error no_pages(const char* call) {
  return {ErrorKind::Runtime, fmt::format("the memory in which a rank shows its progress: {}: {}",
                                          call, std::strerror(errno))};
}

}  // namespace

Result<SharedRankPages> SharedRankPages::make() {
  const int fd = memfd_create("trireme-rank", MFD_CLOEXEC);
  if (fd < 0) return no_pages("memfd_create");
  SharedRankPages pages(nullptr, fd);
  if (ftruncate(fd, sizeof(RankPages)) != 0) return no_pages("ftruncate");
  TRIREME_TRY(mapped, map(fd));
  std::swap(pages.pages_, mapped.pages_);
  return pages;
}

Result<SharedRankPages> SharedRankPages::map(int fd) {
  void* const memory = mmap(nullptr, sizeof(RankPages), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return no_pages("mmap");
  return SharedRankPages(static_cast<RankPages*>(memory), -1);
}

SharedRankPages::~SharedRankPages() {
  if (pages_ != nullptr) munmap(pages_, sizeof(RankPages));
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace trireme
