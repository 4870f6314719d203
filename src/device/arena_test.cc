#include "device/arena.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/check.h"
#include "device/buffer.h"

namespace trireme {
namespace {

TEST(Arena, CountsWhatIsLiveAndItsPeak) {
  Buffer memory = Buffer::allocate(1024);
  Arena arena({static_cast<std::byte*>(memory.data()), 1024});
  const ArenaBlock a{0, 512}, b{512, 512};
  arena.acquire(a);
  std::memset(arena.place(a), 1, 512);
  arena.release(a);
  arena.acquire(b);
  EXPECT_EQ(arena.live_bytes(), 512);
  EXPECT_EQ(arena.peak_bytes(), 512);
  arena.acquire(a);
  EXPECT_EQ(arena.peak_bytes(), 1024);
}

TEST(Arena, RefusesABlockOutsideItself) {
  Buffer memory = Buffer::allocate(1024);
  Arena arena({static_cast<std::byte*>(memory.data()), 1024});
  EXPECT_THROW(arena.acquire({1024, 64}), ContractError);
}

TEST(Buffer, LargeOnesBeginAtAHugePage) {
  const Buffer buffer = Buffer::allocate(int64_t{5} << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % (2 << 20), 0u);
  std::memset(buffer.data(), 1, buffer.bytes());
}

}  // namespace
}  // namespace trireme
