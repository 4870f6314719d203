#include "kernels/argument_checks.h"
#include "kernels/elementwise/elementwise.h"

namespace trireme {

void check_convert(const ConvertArgs& args) {
  check_argument(is_compute_dtype(args.x_N.dtype) && is_compute_dtype(args.y_N.dtype),
                 "convert takes fp32, bf16 and fp16");
  check_tensor("y", args.y_N, args.x_N.num_elements(), args.y_N.dtype);
}

void check_add(const AddArgs& args) {
  check_state("sum", args.sum_N, args.sum_N.num_elements());
  check_tensor("x", args.x_N, args.sum_N.num_elements(), args.sum_N.dtype);
}

void check_sum(const SumArgs& args) {
  check_argument(is_compute_dtype(args.x_N.dtype), "sum takes fp32, bf16 and fp16");
  check_tensor("y", args.y_N, args.x_N.num_elements(), args.x_N.dtype);
  check_tensor("out", args.out_N, args.x_N.num_elements(), args.x_N.dtype);
}

void check_copy_matrix(const CopyMatrixArgs& args) {
  check_float("x", args.x_TN);
  check_float("y", args.y_TN);
  check_matrix("y", args.y_TN, args.x_TN.rows, args.x_TN.cols, args.y_TN.dtype);
  check_argument(args.write == Write::Overwrite || args.y_TN.dtype == DType::F32, "sums are fp32");
}

void check_fill_normal(const FillNormalArgs& args) {
  check_tensor("x", args.x_N, args.x_N.num_elements(), DType::F32);
  check_argument(args.first_element >= 0, "first_element counts from the parameter's start");
}

}  // namespace trireme
