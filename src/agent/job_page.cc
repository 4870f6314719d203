#include "agent/job_page.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace trireme {
namespace {

Error no_page(const char* call) {
  return {ErrorKind::Runtime, fmt::format("the memory that an agent shares with its ranks: {}: {}",
                                          call, std::strerror(errno))};
}

int64_t shifted(int64_t number, bool is_time, int64_t shift_ns) {
  return is_time && number != 0 ? number + shift_ns : number;
}

// Calls visit(number, is_time) for every number that rank 0 writes.
template <typename Page, typename Visit>
void for_each_number(Page& page, const Visit& visit) {
  visit(page.step, false);
  visit(page.step_ns, true);
  visit(page.saved_step, false);
  visit(page.furthest_step, false);
  visit(page.furthest_ns, true);
  visit(page.begun_ns, true);
  visit(page.job, false);
  visit(page.trained_epoch, false);
  visit(page.first_step_ns, true);
  visit(page.told_failures, false);
  visit(page.redone_steps, false);
  visit(page.lost_ns, false);
  visit(page.compute_ns, false);
  visit(page.exposed_ns, false);
  visit(page.bubble_ns, false);
  visit(page.straggler_ns, false);
  visit(page.saving_ns, false);
  visit(page.redone_ns, false);
  visit(page.recoveries_from_memory, false);
  visit(page.recoveries_from_disk, false);
  visit(page.recovery_ns, false);
  visit(page.resumed_epoch, false);
  visit(page.resumed_step, false);
  visit(page.older_step, false);
  visit(page.memory_step, false);
  visit(page.memory_redone, false);
}

}  // namespace

PageValues values_of(const JobPage& page, int64_t shift_ns) {
  PageValues values;
  size_t next = 0;
  for_each_number(page, [&](const auto& number, bool is_time) {
    values.numbers[next++] = shifted(static_cast<int64_t>(number.load()), is_time, shift_ns);
  });
  const int32_t bytes = page.measured_bytes;
  if (bytes > 0 && size_t(bytes) <= page.measured.size()) {
    values.measured_bytes = bytes;
    std::copy_n(page.measured.begin(), bytes, values.measured.begin());
  }
  return values;
}

void store(const PageValues& values, int64_t shift_ns, JobPage& page) {
  size_t next = 0;
  for_each_number(page, [&](auto& number, bool is_time) {
    number = shifted(values.numbers[next++], is_time, shift_ns);
  });
  if (values.measured_bytes <= 0 || size_t(values.measured_bytes) > page.measured.size()) return;
  std::copy_n(values.measured.begin(), values.measured_bytes, page.measured.begin());
  page.measured_bytes = values.measured_bytes;
}

bool is_further(const PageValues& values, const JobPage& page) {
  constexpr size_t kFurthestStep = 3;  // as for_each_number visits it
  return values.numbers[kFurthestStep] >= page.furthest_step;
}

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
