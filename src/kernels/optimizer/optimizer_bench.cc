#include "kernels/bench_tensors.h"
#include "kernels/optimizer/optimizer_cases.h"

namespace trireme {

void bench_optimizer(std::vector<BenchRow>& rows, const BenchContext& context) {
  const KernelTable& kernels = context.kernels;
  const int64_t n = kOptimizerBenchSize;
  Tensor grad = varied(DType::F32, {n}), master = varied(DType::F32, {n});
  Tensor exp_avg(DType::F32, {n}), exp_avg_sq(DType::F32, {n}), param(DType::BF16, {n});
  Tensor grad_bf16(DType::BF16, {n}), weight_bf16(DType::BF16, {n});
  Tensor exp_avg_bf16(DType::BF16, {n}), exp_avg_sq_bf16(DType::BF16, {n});
  Tensor partials(DType::F64, {(n + kNormChunk - 1) / kNormChunk});
  const auto measure = [&](const char* name, DType dtype, double bytes, const char* formula,
                           auto&& call) {
    add_bandwidth_row(rows, context, "optimizer", name + std::to_string(n), dtype,
                      {bytes * double(n), formula}, call);
  };
  const auto adamw = [&](const TensorRef& param_N) {
    kernels.adamw(context.stream, {.grad_N = grad,
                                   .master_N = master,
                                   .exp_avg_N = exp_avg,
                                   .exp_avg_sq_N = exp_avg_sq,
                                   .param_N = param_N,
                                   .lr = 1e-4f,
                                   .weight_decay = 0.1f});
  };
  const auto sgd = [&](const TensorRef& param_N) {
    kernels.sgd(context.stream, {.grad_N = grad,
                                 .master_N = master,
                                 .momentum_N = exp_avg,
                                 .param_N = param_N,
                                 .lr = 1e-4f,
                                 .momentum = 0.9f});
  };
  measure("squared_norm ", DType::F32, 4, "read grad", [&] {
    kernels.squared_norm(context.stream, {grad, partials});
  });
  measure("adamw ", DType::F32, 28, "read grad, read and write weight, 2 moments",
          [&] { adamw({}); });
  measure("adamw ", DType::BF16, 30, "the same, write bf16 param", [&] { adamw(param); });
  measure("adamw, all in bf16 ", DType::BF16, 14, "the same bytes of 2, without a master", [&] {
    kernels.adamw(context.stream, {.grad_N = grad_bf16,
                                   .master_N = weight_bf16,
                                   .exp_avg_N = exp_avg_bf16,
                                   .exp_avg_sq_N = exp_avg_sq_bf16,
                                   .param_N = {},
                                   .lr = 1e-4f,
                                   .weight_decay = 0.1f});
  });
  measure("sgd with momentum ", DType::F32, 20, "read grad, read and write weight, momentum",
          [&] { sgd({}); });
  measure("sgd with momentum ", DType::BF16, 22, "the same, write bf16 param", [&] { sgd(param); });
}

}  // namespace trireme
