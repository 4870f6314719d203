#pragma once

#include <cstdint>

namespace trireme {

// What a kernel of any shape may need for itself on one thread: packed panels and tiles.
inline constexpr int64_t kWorkspaceBytesPerThread = int64_t{4} << 20;

}  // namespace trireme
