#include "agent/job_page.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trireme {
namespace {

Error no_page(const char* call) {
  return {ErrorKind::Runtime, fmt::format("the memory that an agent shares with its ranks: {}: {}",
                                          call, std::strerror(errno))};
}

}  // namespace

Result<SharedJobPage> SharedJobPage::make() {
  const int fd = memfd_create("trireme-job", MFD_CLOEXEC);
  if (fd < 0) return no_page("memfd_create");
  SharedJobPage page(nullptr, fd);
  if (ftruncate(fd, sizeof(JobPage)) != 0) return no_page("ftruncate");
  TRIREME_TRY(mapped, map(fd));
  std::swap(page.page_, mapped.page_);
  return page;
}

Result<SharedJobPage> SharedJobPage::map(int fd) {
  void* const memory = mmap(nullptr, sizeof(JobPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return no_page("mmap");
  return SharedJobPage(static_cast<JobPage*>(memory), -1);
}

SharedJobPage::~SharedJobPage() {
  if (page_ != nullptr) munmap(page_, sizeof(JobPage));
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace trireme
