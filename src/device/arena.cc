#include "device/arena.h"

#include <algorithm>
#include <string>

#include "base/align.h"
#include "base/check.h"
#include "device/huge_pages.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace trireme {
namespace {

// Tell AddressSanitizer which parts of an arena are live. Without it these functions do nothing.
#if defined(__SANITIZE_ADDRESS__)
void allow_access(void* data, int64_t bytes) { ASAN_UNPOISON_MEMORY_REGION(data, bytes); }
void forbid_access(void* data, int64_t bytes) { ASAN_POISON_MEMORY_REGION(data, bytes); }
#else
void allow_access(void*, int64_t) {}
void forbid_access(void*, int64_t) {}
#endif

}  // namespace

Arena::Arena(std::span<std::byte> memory) : memory_(memory) {}

// The addresses are returned to the system, and their next user must be able to access them.
Arena::~Arena() { allow_access(memory_.data(), bytes()); }

// A huge page takes the place of the first small one, before the others cost time.
void Arena::touch(int part, int num_parts) {
  constexpr int64_t kPageBytes = 4096;
  const auto begin_of = [&](int64_t p) {
    const int64_t num_huge = (bytes() + kHugePageBytes - 1) / kHugePageBytes;
    return std::min(bytes(), num_huge * p / num_parts * kHugePageBytes);
  };
  const int64_t begin = begin_of(part), end = begin_of(part + 1);
  volatile auto* const data = reinterpret_cast<volatile char*>(memory_.data());
  for (int64_t at = begin; at < end; at += kHugePageBytes) data[at] = 0;
  collapse_pages(memory_.data() + begin, end - begin);
  for (int64_t at = begin; at < end; at += kPageBytes) data[at] = 0;
}

void* Arena::place(ArenaBlock block) const {
  TRIREME_CHECK(block.offset % kTensorAlignment == 0 && block.bytes % kTensorAlignment == 0,
                "an arena block is aligned");
  TRIREME_CHECK(block.offset >= 0 && block.offset + block.bytes <= bytes(),
                "a block of " + std::to_string(block.bytes) + " bytes at " +
                    std::to_string(block.offset) + " lies outside its arena");
  return memory_.data() + block.offset;
}

void Arena::acquire(ArenaBlock block) {
  allow_access(place(block), block.bytes);
  live_ += block.bytes;
  peak_ = std::max(peak_, live_);
}

void Arena::release(ArenaBlock block) {
  forbid_access(place(block), block.bytes);
  live_ -= block.bytes;
  TRIREME_CHECK(live_ >= 0, "a block was released that was not live");
}

}  // namespace trireme
