#pragma once

#include <span>

#include "kernels/inline.h"
#include "kernels/matmul/matmul.h"

namespace trireme {

// One product for each group of neighbouring rows, each with its own matrix: rows begin_G[g] ..
// begin_G[g + 1] - 1 of x and y, and w_G[g]. Rows outside the groups are neither read nor written.
// NT: y_RN = x_RK w_NK^T    NN: y_RN = x_RK w_KN    TN: w_MN (+)= x_RM^T y_RN
// Dtypes, bits and rounding are those of matmul on each group; 2 R N K FLOPs over all rows R. The
// TN product of a group without rows is zero.
struct GroupedMatmulArgs {
  MatmulForm form = MatmulForm::NT;
  MatrixRef x;
  MatrixRef y;                     // written by NT and NN
  std::span<const MatrixRef> w_G;  // all have one shape; written by TN
  TensorRef begin_G;               // int32 [groups + 1], rising
  Write write = Write::Overwrite;  // for TN
};
void grouped_matmul_ref(Stream& stream, const GroupedMatmulArgs& args);
void check_grouped_matmul(const GroupedMatmulArgs& args);  // throws ContractError

// Returns the product of group g.
TRIREME_INLINE MatmulArgs product_of(const GroupedMatmulArgs& args, size_t g) {
  const int32_t* begin_G = static_cast<const int32_t*>(args.begin_G.data);
  const int64_t first = begin_G[g], count = begin_G[g + 1] - begin_G[g];
  const MatrixRef x = rows_of(args.x, first, count), y = rows_of(args.y, first, count);
  if (args.form == MatmulForm::TN) {
    return {.form = args.form, .a = x, .b = y, .c = args.w_G[g], .write = args.write};
  }
  return {.form = args.form, .a = x, .b = args.w_G[g], .c = y};
}

}  // namespace trireme
