#pragma once

#include <cstdint>

namespace trireme {

// What a kernel of any shape may need for itself on one thread: packed panels and tiles.
inline constexpr int64_t kWorkspaceBytesPerThread = int64_t{4} << 20;

// Ranks exchange the parts of checkpoints in memory in pieces of this size, which stay in a core's
// cache. Two messages of each direction may be in flight, and one piece of a target is read back.
inline constexpr int64_t kMovedAtOnce = int64_t{256} << 10;
inline constexpr int64_t kMoveBufferBytes = 5 * kMovedAtOnce;

}  // namespace trireme
