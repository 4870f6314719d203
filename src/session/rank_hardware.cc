#include "session/rank_hardware.h"

#include <algorithm>
#include <utility>

#include "compile/price.h"

namespace trireme {

KernelSizes kernel_sizes(const RunPlan& plan) {
  const StageShape& shape = plan.shape;
  const ModelSpec& model = plan.model;
  // fp16 is computed in fp32.
  return {.compute = shape.compute == DType::BF16 ? DType::BF16 : DType::F32,
          .tokens = shape.micro_sequences * model.seq_len / shape.cp,
          .d_model = model.d_model,
          .d_ff = model.d_ff / shape.tp,
          .heads = model.heads / shape.tp,
          .seq_len = model.seq_len,
          .head_dim = model.head_dim,
          .bytes = plan.greatest_peak_bytes()};
}

Hardware hardware_of(const Ceilings& ceilings, const MeasuredCalls& calls, int num_ranks) {
  Hardware hardware;
  hardware.name = "this machine, measured at the start";
  hardware.fp32_flops = ceilings.compute.fp32_flops_per_s / num_ranks;
  hardware.bf16_flops = ceilings.compute.bf16_flops_per_s / num_ranks;
  hardware.fp16_flops = hardware.fp32_flops;  // fp16 is computed in fp32
  hardware.memory_bytes_per_s = ceilings.copy_bytes_per_s / num_ranks;
  if (ceilings.matmul_share > 0.0) hardware.matmul_share = ceilings.matmul_share;
  if (ceilings.attention_share > 0.0) hardware.attention_share = ceilings.attention_share;
  hardware.launch_s = ceilings.launch_s;
  hardware.set_nodes(calls.ranks_per_node, calls.inside, calls.between);
  return with_own_kernels(std::move(hardware));
}

Hardware of_all_ranks(Hardware hardware, const RunPlan& plan) {
  const double ranks = plan.num_ranks();
  hardware.threads = plan.num_ranks() * plan.num_threads;
  hardware.fp32_flops *= ranks;
  hardware.bf16_flops *= ranks;
  hardware.fp16_flops *= ranks;
  hardware.memory_bytes_per_s *= ranks;
  hardware.offload_bytes_per_s *= ranks;
  return hardware;
}

int ranks_on_host(const RunPlan& plan, const HostFacts& host) {
  return host.ranks_on_host > 0 ? host.ranks_on_host : plan.num_ranks();
}

Hardware share_of(Hardware hardware, const RunPlan& plan, const HostFacts& host) {
  const int ranks = ranks_on_host(plan, host);
  const double used = std::min(double(ranks) * plan.num_threads, double(host.num_cores));
  const double share = used / std::max(1, hardware.threads) / ranks;
  if (!hardware.tiers.empty()) hardware.tiers.front().ranks = ranks;
  hardware.fp32_flops *= share;
  hardware.bf16_flops *= share;
  hardware.fp16_flops *= share;
  hardware.memory_bytes_per_s *= share;
  hardware.offload_bytes_per_s /= ranks;
  return hardware;
}

}  // namespace trireme
