#pragma once

#include <cstdint>

namespace trireme {

// A kernel writes a tensor of at least so many numbers past the caches: it is larger than a core's
// caches, and other work comes before its next reader. So it need not be read into them first.
inline constexpr int64_t kLeastStreamedNumbers = int64_t{1} << 19;

// A tensor of at least so many numbers is written past the caches even if the next kernel reads it,
// because a core's own caches would not hold its first numbers until then.
inline constexpr int64_t kLeastStreamedToReader = int64_t{8} << 20;

}  // namespace trireme
