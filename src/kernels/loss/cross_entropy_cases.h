#pragma once

#include <cstdint>

namespace trireme {

struct LossShape {
  int64_t rows;
  int64_t vocab_size;
};

// 1, sizes around the vector width, sizes around the block of one maximum, and GPT-2's vocabulary.
inline constexpr LossShape kLossShapes[] = {{1, 1},    {4, 7},    {3, 16},    {5, 65},
                                            {9, 4096}, {3, 4099}, {3, 12289}, {3, 50257}};
inline constexpr LossShape kLossBenchShape = {512, 50257};

}  // namespace trireme
