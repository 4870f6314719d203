#include "session/rank_hardware.h"

#include <algorithm>

namespace trireme {

Hardware hardware_of(const Ceilings& ceilings, const MeasuredCalls& calls, int num_ranks) {
  Hardware hardware;
  hardware.name = "this machine, measured at the start";
  hardware.fp32_flops = ceilings.compute.fp32_flops_per_s / num_ranks;
  hardware.bf16_flops = ceilings.compute.bf16_flops_per_s / num_ranks;
  hardware.fp16_flops = hardware.fp32_flops;  // fp16 is computed in fp32
  hardware.memory_bytes_per_s = ceilings.copy_bytes_per_s / num_ranks;
  hardware.set_nodes(calls.ranks_per_node, calls.inside, calls.between);
  return hardware;
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
