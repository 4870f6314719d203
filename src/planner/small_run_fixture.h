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

}  // namespace trireme
