#include "kernels/argument_checks.h"
#include "kernels/matmul/matrix_vector.h"

namespace trireme {

void check_row_dots(const RowDotsArgs& args) {
  check_float("a", args.a_MK);
  check_tensor("x", args.x_K, args.a_MK.cols, DType::F32);
  check_tensor("y", args.y_M, args.a_MK.rows, DType::F32);
  check_tensor("squares", args.squares_M, args.a_MK.rows, DType::F32);
}

void check_row_combination(const RowCombinationArgs& args) {
  check_float("a", args.a_MK);
  check_tensor("x", args.x_M, args.a_MK.rows, DType::F32);
  check_tensor("y", args.y_K, args.a_MK.cols, DType::F32);
  check_tensor("squares", args.squares_K, args.a_MK.cols, DType::F32);
}

}  // namespace trireme
