#include "device/arena.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace trireme {

Arena::Arena(int64_t bytes)
    : buffer_(Buffer::allocate(std::max(bytes, kArenaAlignment))), bytes_(bytes) {}

void Arena::touch(int part, int num_parts) {
  constexpr int64_t kPageBytes = 4096;
  const int64_t num_pages = (bytes_ + kPageBytes - 1) / kPageBytes;
  volatile char* data = static_cast<char*>(buffer_.data());
  for (int64_t page = num_pages * part / num_parts; page < num_pages * (part + 1) / num_parts;
       ++page) {
    data[page * kPageBytes] = 0;
  }
}

void* Arena::acquire(ArenaBlock block) {
  TRIREME_CHECK(block.offset % kArenaAlignment == 0 && block.bytes % kArenaAlignment == 0,
                "an arena block is aligned");
  TRIREME_CHECK(block.offset >= 0 && block.offset + block.bytes <= bytes_,
                "a block of " + std::to_string(block.bytes) + " bytes at " +
                    std::to_string(block.offset) + " lies outside its arena");
  live_ += block.bytes;
  peak_ = std::max(peak_, live_);
  return static_cast<char*>(buffer_.data()) + block.offset;
}

void Arena::release(ArenaBlock block) {
  live_ -= block.bytes;
  TRIREME_CHECK(live_ >= 0, "a block was released that was not live");
}

}  // namespace trireme
