#pragma once

#include "base/philox.h"
#include "device/stream.h"
#include "kernels/position_map.h"
#include "tensor/matrix.h"

namespace trireme {

// y = residual + mask(x) / (1 - p). Element e of global sample s (counted row-major by position in
// the sample, over all columns of which a rank may have a part) is kept if
// uniform_float(philox(key, counter_of(s, e / 4))[e mod 4]) >= p. The backward pass is the same
// call on dy without a residual.
struct DropoutArgs {
  MatrixRef x_TC;         // fp32, bf16 or fp16
  MatrixRef residual_TC;  // absent: 0
  MatrixRef y_TC;         // written; may be x or residual
  float probability = 0.0f;
  RngKey key;
  uint64_t first_sample = 0;  // global number of the sample of row 0
  int64_t rows_per_sample = 0;
  PositionMap positions;     // position in the sample of a row's index
  int64_t first_row = 0;     // index of row 0 in first_sample
  int64_t first_column = 0;  // number of column 0 among all_columns
  int64_t all_columns = 0;   // 0: as many as x has
  int64_t columns_of_row() const { return all_columns == 0 ? x_TC.cols : all_columns; }
};
void dropout_ref(Stream& stream, const DropoutArgs& args);
void check_dropout(const DropoutArgs& args);  // throws ContractError

}  // namespace trireme
