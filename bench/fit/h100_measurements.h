#pragma once

#include <cstdint>

// Measured products on one H100 80GB HBM3, to which its share and depth of products are fitted.
// Nothing of the tables of `trireme reproduce` is among them.

namespace trireme {

// TFLOP/s of products in bf16, each of less than 0.2 ms, so that the power limit does not bind.
// openxla/xla, xla/service/gpu/model/matmul_interpolator_data.h (commit 372d578 of
// tensorflow/tensorflow), key sm_90: of the products there of at least four million results and at
// least 512 rows and columns, those in the last fifth of the file, whose order is random.
struct BurstProduct {
  int64_t count, m, n, k;
  double tflops;
};
inline constexpr BurstProduct kBurstProducts[] = {
    {1, 1024, 4096, 2048, 634.2}, {2, 1024, 4096, 4096, 747.7}, {4, 1024, 1024, 4096, 735.9},
    {2, 4096, 1024, 2048, 713.4}, {2, 2048, 4096, 4096, 779.3}, {2, 4096, 512, 2048, 622.8},
    {4, 2048, 2048, 4096, 779.1}, {1, 4096, 4096, 1024, 677.4}, {4, 1024, 4096, 2048, 718.7},
    {2, 512, 4096, 2048, 627.2},  {4, 2048, 512, 4096, 730.4},  {4, 4096, 2048, 1024, 687.9},
    {2, 4096, 2048, 2048, 733.3}, {1, 2048, 4096, 2048, 715.4}, {4, 2048, 1024, 4096, 745.0},
    {4, 1024, 1024, 256, 214.7},  {2, 1024, 4096, 256, 298.3},  {2, 1024, 2048, 512, 339.8},
    {4, 2048, 2048, 256, 394.8},  {2, 2048, 2048, 512, 447.0},  {4, 512, 4096, 512, 442.2},
    {4, 2048, 1024, 256, 300.9},  {2, 2048, 4096, 256, 393.9},  {2, 1024, 4096, 512, 445.9},
};

}  // namespace trireme
