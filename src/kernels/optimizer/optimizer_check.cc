#include "kernels/argument_checks.h"
#include "kernels/optimizer/optimizer.h"

namespace trireme {
namespace {

void check_param(const TensorRef& param_N, const TensorRef& master_N) {
  const bool is_half = param_N.dtype == DType::BF16 || param_N.dtype == DType::F16;
  check_argument(!param_N || (is_half && master_N.dtype == DType::F32),
                 "parameters beside fp32 masters are bf16 or fp16");
  check_if_present("param", param_N, master_N.num_elements(), param_N.dtype);
}

void check_copies(const AdamWArgs& args) {
  check_argument(args.master_N.dtype == DType::F32 && args.exp_avg_N.dtype == DType::F32,
                 "only fp32 is copied while it is updated");
  check_argument(args.grad_N.num_elements() * int64_t(sizeof(float)) % kHashBlockBytes == 0,
                 "copies are made of whole blocks");
  check_argument(args.copies.keeps_master || !args.copies.keeps_moments,
                 "moments are not kept where the master is not");
  for (const HashedWrite& copy :
       {args.copies.master, args.copies.exp_avg, args.copies.exp_avg_sq}) {
    check_argument(copy.hash != nullptr && reinterpret_cast<uintptr_t>(copy.to) % 64 == 0,
                   "copies lie on a 64-byte border, with hashes");
  }
}

}  // namespace

void check_squared_norm(const SquaredNormArgs& args) {
  const int64_t n = args.grad_N.num_elements();
  check_state("grad", args.grad_N, n);
  check_tensor("partials", args.partials_P, (n + kNormChunk - 1) / kNormChunk, DType::F64);
}

void check_exact_squared_norm(const ExactSquaredNormArgs& args) {
  check_state("grad", args.grad_N, args.grad_N.num_elements());
  check_tensor("words", args.words_W, kExactNormWords, DType::I64);
}

void check_adamw(const AdamWArgs& args) {
  const int64_t n = args.grad_N.num_elements();
  check_state("grad", args.grad_N, n);
  check_state("master", args.master_N, n);
  check_state("exp_avg", args.exp_avg_N, n);
  check_tensor("exp_avg_sq", args.exp_avg_sq_N, n, args.exp_avg_N.dtype);
  check_param(args.param_N, args.master_N);
  if (args.copies) check_copies(args);
}

void check_momentum(const MomentumArgs& args) {
  const int64_t n = args.grad_N.num_elements();
  check_state("grad", args.grad_N, n);
  check_state("momentum", args.momentum_N, n);
  check_state("update", args.update_N, n);
}

void check_weighted_sum(const WeightedSumArgs& args) {
  const auto [rows, cols] = std::pair(args.a_MN.rows, args.a_MN.cols);
  check_state("a", args.a_MN, rows, cols);
  check_if_present("b", args.b_MN, rows, cols, args.a_MN.dtype);
  check_matrix("out", args.out_MN, rows, cols, args.a_MN.dtype);
}

void check_sgd(const SgdArgs& args) {
  const int64_t n = args.grad_N.num_elements();
  check_state("grad", args.grad_N, n);
  check_state("master", args.master_N, n);
  if (args.momentum_N) check_state("momentum", args.momentum_N, n);
  check_param(args.param_N, args.master_N);
}

}  // namespace trireme
