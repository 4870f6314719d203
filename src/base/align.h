#pragma once

#include <cstdint>

namespace trireme {

// Returns the smallest multiple of `step` that is not below `value`. Both are positive.
constexpr int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Alignment of tensors in tables, in regions of the memory plan and in arenas, in bytes: a cache
// line, and the widest vector.
inline constexpr int64_t kTensorAlignment = 64;

constexpr int64_t aligned_bytes(int64_t bytes) { return round_up(bytes, kTensorAlignment); }

}  // namespace trireme
