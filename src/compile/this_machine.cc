#include "compile/this_machine.h"

namespace trireme {
namespace {

constexpr double kAssumedCopyBytesPerFlop = 0.3;

// Of our attention kernel on a processor (kernels/attention/attention_tile.h).
constexpr int kAttentionTile = 64;
// Operations of norms, activations and the loss for each multiply-add that registers could make;
// 1.0 to 1.4 on processors with AVX-512, which load and add beside.
constexpr double kVectorShare = 1.2;

}  // namespace

Hardware with_own_kernels(Hardware hardware) {
  hardware.attention_tile = kAttentionTile;
  hardware.vector_share = kVectorShare;
  return hardware;
}

Hardware assumed_hardware(const ComputeCeilings& ceilings) {
  Hardware hardware;
  hardware.name = "this machine";
  hardware.fp32_flops = ceilings.fp32_flops_per_s;
  hardware.bf16_flops = ceilings.bf16_flops_per_s;
  hardware.fp16_flops = ceilings.fp32_flops_per_s;  // fp16 is computed in fp32
  hardware.memory_bytes_per_s = kAssumedCopyBytesPerFlop * ceilings.fp32_flops_per_s;
  return hardware;
}

}  // namespace trireme
