#include "device/buffer.h"

#include <sys/mman.h>

#include <string>
#include <utility>

#include "base/align.h"
#include "base/check.h"
#include "base/units.h"
#include "device/huge_pages.h"

namespace trireme {
namespace {

constexpr int64_t kPageBytes = 4096;

}  // namespace

Buffer Buffer::allocate(int64_t bytes) {
  TRIREME_CHECK(bytes > 0, "a buffer has at least one byte");
  const bool huge = bytes >= kHugePageBytes;
  const int64_t mapped = round_up(bytes, huge ? kHugePageBytes : kPageBytes);
  // Reserves one more huge page, so that an aligned start can be chosen in it.
  const int64_t reserved = huge ? mapped + kHugePageBytes : mapped;
  void* reserved_data = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved_data == MAP_FAILED) {
    throw DeviceError("the host cannot allocate " + format_bytes(bytes) + " of memory");
  }
  char* begin = static_cast<char*>(reserved_data);
  if (huge) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(begin);
    const int64_t head =
        static_cast<int64_t>((kHugePageBytes - address % kHugePageBytes) % kHugePageBytes);
    const int64_t tail = reserved - head - mapped;
    if (head > 0) ::munmap(begin, head);
    begin += head;
    if (tail > 0) ::munmap(begin + mapped, tail);
    ::madvise(begin, mapped, MADV_HUGEPAGE);
  }
  Buffer buffer;
  buffer.data_ = begin;
  buffer.bytes_ = bytes;
  buffer.mapped_ = mapped;
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) ::munmap(data_, mapped_);
}

}  // namespace trireme
