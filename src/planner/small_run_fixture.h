#pragma once

#include "schema/hardware.h"
#include "schema/run_config.h"

// A run and a cluster small enough that every layout can be tried.

namespace trireme {

inline RunConfig small_run(ModelFamily family, int64_t layers = 4) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = layers;
  config.model.d_model = 32;
  config.model.heads = 4;
  config.model.d_ff = 64;
  config.model.experts = 4;
  config.model.vocab_size = 96;
  config.model.seq_len = 16;
  config.batch.global_sequences = 4;
  config.batch.micro_sequences = 1;
  return config;
}

// Four ranks on two nodes with a slow link between them.
inline Hardware two_nodes() {
  Hardware hardware;
  hardware.fp32_flops = 1e11;
  hardware.bf16_flops = 2e11;
  hardware.memory_bytes_per_s = 1e11;
  hardware.set_nodes(2, {1e-6, 5e9}, {3e-6, 1e9});
  return hardware;
}

// Nodes of so many GPUs, with the numbers of clusters/dgx-h100.toml: tiles, a power limit, a switch
// that adds, and a library that chooses the method of a collective by its price.
inline Hardware gpu_nodes(int ranks_of_node) {
  Hardware hardware;
  hardware.fp32_flops = 67e12;
  hardware.bf16_flops = hardware.fp16_flops = 989e12;
  hardware.memory_bytes_per_s = 3.35e12;
  hardware.multiprocessors = 132;
  hardware.reduce_bytes_per_s = 1.1e12;
  hardware.offload_bytes_per_s = 51.2e9;
  hardware.matmul_share = 0.863;
  hardware.matmul_depth = 430.0;
  hardware.sustained_flops = 720e12;
  hardware.attention_share = 0.5;
  hardware.memory_share = 0.734;
  hardware.launch_s = 50.3e-6;
  hardware.collective_s = 33.63e-6;
  hardware.overlap_share = 0.18;
  hardware.set_nodes(ranks_of_node, {3.4e-6, 370e9}, {14e-6, 40e9});
  hardware.tiers.front().sums_in_switch = true;
  hardware.tiers.front().switch_share = 0.85;
  return hardware;
}

}  // namespace trireme
