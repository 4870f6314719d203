#pragma once

#include "base/philox.h"
#include "device/stream.h"
#include "kernels/position_map.h"
#include "tensor/matrix.h"

namespace trireme {

// y = residual + mask(x) / (1 - p). Element e (row-major by positions inside its sample) of global
// sample s is kept iff uniform_float(philox(key, counter_of(s, e / 4))[e mod 4]) >= p. The backward
// pass is the same call on dy without a residual.
struct DropoutArgs {
  MatrixRef x_TC;         // fp32, bf16 or fp16
  MatrixRef residual_TC;  // absent: 0
  MatrixRef y_TC;         // written; may be x or residual
  float probability = 0.0f;
  RngKey key;
  uint64_t first_sample = 0;  // global number of the sample that rows count from
  int64_t rows_per_sample = 0;
  PositionMap positions;  // of a row inside its sample
  int64_t first_row = 0;  // of first_sample: what row 0 is
};
void dropout_ref(Stream& stream, const DropoutArgs& args);
void check_dropout(const DropoutArgs& args);  // throws ContractError

}  // namespace trireme
