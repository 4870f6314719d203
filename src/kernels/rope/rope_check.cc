#include "kernels/argument_checks.h"
#include "kernels/rope/rope.h"

namespace trireme {

void check_rope(const RopeArgs& args) {
  check_float("x", args.x_T_HD);
  check_argument(args.head_dim > 0 && args.head_dim % 2 == 0, "head_dim is even");
  check_argument(args.head_step() >= args.head_dim &&
                     (args.x_T_HD.cols - args.head_dim) % args.head_step() == 0,
                 "x's columns are whole heads, up to the turned part of the last one");
  check_argument(args.seq_len > 0, "a sequence has at least one position");
  const int64_t half = args.head_dim / 2;
  const int64_t used = args.x_T_HD.rows < args.seq_len ? args.x_T_HD.rows : args.seq_len;
  const int64_t positions = args.cos_SD2.num_elements() / half;
  check_tensor("cos", args.cos_SD2, positions * half, DType::F32);
  check_tensor("sin", args.sin_SD2, positions * half, DType::F32);
  if (args.position_T) return check_positions(args.position_T, args.x_T_HD.rows, positions);
  check_argument(used <= positions, "the tables hold every row's position");
}

}  // namespace trireme
