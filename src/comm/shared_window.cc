#include "comm/shared_window.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <random>

#include "base/align.h"
#include "base/check.h"

namespace trireme {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw IoError(fmt::format("shared window: {}: {}", what, std::strerror(errno)));
}

[[noreturn]] void fail_to_map() {
  fail(
      fmt::format("mapping {} GiB of addresses, of which only used pages take memory (see "
                  "`ulimit -v`, which must allow as much for every rank of the host)",
                  SharedWindow::bytes() >> 30));
}

}  // namespace

SharedWindow::SharedWindow() {
  fd_ = memfd_create("trireme-window", MFD_CLOEXEC);
  if (fd_ < 0) fail("memfd_create");
  if (ftruncate(fd_, bytes()) != 0) fail("ftruncate");
  map();
  std::random_device random;
  layout().nonce = uint64_t(random()) << 32 | random();
  free_[0] = WindowLayout::kArenaBytes;
}

SharedWindow::SharedWindow(int pid, int fd, uint64_t nonce) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0) fail("open " + path);
  map();
  if (layout().nonce != nonce) throw IoError("shared window: " + path + " is not a rank's window");
}

// Maps the window at an address that is aligned for huge pages.
void SharedWindow::map() {
  struct stat size;
  if (fstat(fd_, &size) != 0 || size.st_size != bytes()) throw IoError("shared window: no window");
  void* reserved = mmap(nullptr, size_t(bytes() + kPage), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) fail_to_map();
  auto* first = static_cast<std::byte*>(reserved);
  const int64_t past = int64_t(reinterpret_cast<uintptr_t>(first) % kPage);
  const int64_t head = past == 0 ? 0 : kPage - past;
  if (head > 0) munmap(first, size_t(head));
  munmap(first + head + bytes(), size_t(kPage - head));
  void* base =
      mmap(first + head, size_t(bytes()), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0);
  if (base == MAP_FAILED) fail_to_map();
  base_ = first + head;
  madvise(base, size_t(bytes()), MADV_HUGEPAGE);  // only a hint, errors do not matter
}

SharedWindow::~SharedWindow() {
  if (base_ != nullptr) munmap(base_, size_t(bytes()));
  if (fd_ >= 0) close(fd_);
}

void* SharedWindow::allocate(int64_t bytes) {
  const int64_t wanted = round_up(std::max<int64_t>(bytes, 1), bytes >= kPage ? kPage : 4096);
  const std::lock_guard lock(mutex_);
  for (auto place = free_.begin(); place != free_.end(); ++place) {
    const auto [offset, length] = *place;
    const int64_t begin = round_up(offset, wanted >= kPage ? kPage : 4096);
    if (begin + wanted > offset + length) continue;
    free_.erase(place);
    if (begin > offset) free_[offset] = begin - offset;
    if (begin + wanted < offset + length) free_[begin + wanted] = offset + length - begin - wanted;
    return base_ + kArenaBegin + begin;
  }
  return nullptr;
}

void SharedWindow::release(void* data, int64_t bytes) {
  const int64_t length = round_up(std::max<int64_t>(bytes, 1), bytes >= kPage ? kPage : 4096);
  madvise(data, size_t(length), MADV_REMOVE);
  const std::lock_guard lock(mutex_);
  const int64_t offset = static_cast<std::byte*>(data) - base_ - kArenaBegin;
  auto place = free_.emplace(offset, length).first;
  const auto next = std::next(place);
  if (next != free_.end() && offset + length == next->first) {
    place->second += next->second;
    free_.erase(next);
  }
  if (place == free_.begin()) return;
  const auto previous = std::prev(place);
  if (previous->first + previous->second == place->first) {
    previous->second += place->second;
    free_.erase(place);
  }
}

}  // namespace trireme
