#include "session/rank_hardware.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compile/step_price.h"
#include "compile/this_machine.h"

namespace trireme {

namespace {

// Share of a rank's compute that a transfer inside a host takes if its thread has the same core:
// nearly all, because it copies memory. A transfer between hosts mostly waits for the link.
constexpr double kShareOfCore = 0.9;

// Threads of a host's ranks that run at the same time.
double threads_at_once(const RunPlan& plan, const HostFacts& host) {
  return std::min(double(ranks_on_host(plan, host)) * plan.num_threads, double(host.num_cores));
}

}  // namespace

KernelSizes kernel_sizes(const RunPlan& plan) {
  const StageShape& shape = plan.shape;
  const ModelSpec& model = plan.model;
  // fp16 is computed in fp32.
  return {.compute = shape.compute == DType::BF16 ? DType::BF16 : DType::F32,
          .tokens = shape.micro_sequences * model.seq_len / shape.cp,
          .d_model = model.d_model,
          .d_ff = model.d_ff / shape.tp,
          .vocab_size = model.vocab_size / shape.tp,
          .has_relu = model.mlp == MlpType::Relu || model.mlp == MlpType::Relu2,
          .heads = model.heads / shape.tp,
          .seq_len = model.seq_len,
          .head_dim = model.key_dim(),
          .bytes = plan.greatest_peak_bytes(),
          .params = plan.num_params / plan.num_ranks()};
}

int64_t offload_bytes(const RunPlan& plan) {
  const bool has_params = plan.config.memory.offload == OffloadChoice::All;
  return plan.num_params *
         (state_bytes(plan.shape) + (has_params ? size_of(plan.shape.compute) : 0));
}

Hardware hardware_of(const MeasuredMachine& measured) {
  Hardware hardware = with_own_kernels({});
  hardware.name = "this machine, measured at the start";
  hardware.fp32_flops = measured.peaks.fp32_flops_per_s / measured.num_ranks;
  hardware.bf16_flops = measured.peaks.bf16_flops_per_s / measured.num_ranks;
  hardware.fp16_flops = hardware.fp32_flops;  // fp16 is computed in fp32
  const RunKernels& kernels = measured.kernels;
  hardware.memory_bytes_per_s = kernels.memory_bytes_per_s;
  hardware.matmul_share = kernels.matmul_share;
  hardware.matmul_bytes_per_s = kernels.matmul_bytes_per_s;
  hardware.attention_share = kernels.attention_share;
  hardware.vector_share = kernels.vector_share;
  hardware.launch_s = kernels.launch_s;
  hardware.background_s = measured.calls.background_s;
  const bool copies_on_core = measured.shares_cores && measured.shares_host;
  hardware.overlap_share = copies_on_core ? kShareOfCore : 0.0;
  hardware.core_s_per_byte = measured.shares_cores ? measured.calls.core_s_per_byte : 0.0;
  measured.offload.set(measured.num_ranks, hardware);
  hardware.set_nodes(measured.calls.ranks_per_node, measured.calls.inside, measured.calls.between);
  return hardware;
}

void scale_cores(Hardware& hardware, double factor) {
  hardware.fp32_flops *= factor;
  hardware.bf16_flops *= factor;
  hardware.fp16_flops *= factor;
  hardware.memory_bytes_per_s *= factor;
  hardware.matmul_bytes_per_s *= factor;
}

int ranks_on_host(const RunPlan& plan, const HostFacts& host) {
  return host.ranks_on_host > 0 ? host.ranks_on_host : plan.num_ranks();
}

Hardware share_of(Hardware hardware, const RunPlan& plan, const HostFacts& host) {
  const int ranks = ranks_on_host(plan, host);
  const double used = threads_at_once(plan, host);
  const double share = used / std::max(1, hardware.threads) / ranks;
  // Nodes of several sizes are those of the file.
  const bool has_equal_nodes = hardware.nodes().are_equal();
  if (!hardware.tiers.empty() && has_equal_nodes) hardware.tiers.front().ranks = ranks;
  scale_cores(hardware, share);
  const bool shares_cores = plan.num_ranks() > 1 && ranks * plan.num_threads >= host.num_cores;
  if (hardware.is_processor()) {
    hardware.overlap_share = shares_cores && ranks > 1 ? kShareOfCore : 0.0;
    if (!shares_cores) hardware.core_s_per_byte = 0.0;
  }
  hardware.offload_bytes_per_s /= ranks;
  hardware.offload_write_bytes_per_s /= ranks;
  if (used < double(host.num_cores)) hardware.offload_share = 0.0;  // the file has a core
  return hardware;
}

Hardware of_all_ranks(Hardware hardware, const RunPlan& plan, const HostFacts& host) {
  const double ranks = plan.num_ranks();
  const double on_host = ranks_on_host(plan, host);
  hardware.threads = int(std::lround(ranks / on_host * threads_at_once(plan, host)));
  scale_cores(hardware, ranks);
  hardware.offload_bytes_per_s *= ranks;
  hardware.offload_write_bytes_per_s *= ranks;
  return hardware;
}

}  // namespace trireme
