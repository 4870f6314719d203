#include "kernels/argument_checks.h"
#include "kernels/optimizer/optimizer.h"

namespace trireme {
namespace {

void check_param(const TensorRef& param_N, int64_t n) {
  const bool is_half = param_N.dtype == DType::BF16 || param_N.dtype == DType::F16;
  check_argument(!param_N || is_half, "parameters beside masters are bf16 or fp16");
  check_if_present("param", param_N, n, param_N.dtype);
}

}  // namespace

void check_squared_norm(const SquaredNormArgs& args) {
  const int64_t n = args.grad_N.num_elements();
  check_tensor("grad", args.grad_N, n, DType::F32);
  check_tensor("partials", args.partials_P, (n + kNormChunk - 1) / kNormChunk, DType::F64);
}

void check_exact_squared_norm(const ExactSquaredNormArgs& args) {
  check_tensor("grad", args.grad_N, args.grad_N.num_elements(), DType::F32);
  check_tensor("words", args.words_W, kExactNormWords, DType::I64);
}

void check_adamw(const AdamWArgs& args) {
  const int64_t n = args.grad_N.num_elements();
  check_tensor("grad", args.grad_N, n, DType::F32);
  check_tensor("master", args.master_N, n, DType::F32);
  check_tensor("exp_avg", args.exp_avg_N, n, DType::F32);
  check_tensor("exp_avg_sq", args.exp_avg_sq_N, n, DType::F32);
  check_param(args.param_N, n);
}

void check_sgd(const SgdArgs& args) {
  const int64_t n = args.grad_N.num_elements();
  check_tensor("grad", args.grad_N, n, DType::F32);
  check_tensor("master", args.master_N, n, DType::F32);
  check_if_present("momentum", args.momentum_N, n, DType::F32);
  check_param(args.param_N, n);
}

}  // namespace trireme
