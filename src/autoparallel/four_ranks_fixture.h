#pragma once

#include "autoparallel/planned_run.h"

// A small cluster for tests of whole searches.

namespace trireme {

// Four ranks on two nodes with a slow link between them.
inline Hardware small_cluster() {
  Hardware hardware;
  hardware.fp32_flops = 1e12;
  hardware.bf16_flops = 2e12;
  hardware.memory_bytes_per_s = 1e12;
  hardware.memory_bytes = int64_t{1} << 32;
  hardware.set_nodes(2, {1e-6, 50e9}, {5e-6, 2e9});
  return hardware;
}

inline HostFacts host_of(const Hardware& hardware) {
  HostFacts host;
  host.num_cores = 4;
  host.ranks_on_host = 4;
  host.hardware = hardware;
  return host;
}

// Three layers, and eight sequences a step.
inline RunConfig small_config(ModelFamily family) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 3;
  config.model.d_model = 256;
  config.model.heads = 8;
  config.model.d_ff = 1024;
  config.model.vocab_size = 1024;
  config.model.seq_len = 128;
  config.model.dropout = 0.0;
  if (family == ModelFamily::Moe) config.model.experts = 4;
  config.batch.global_sequences = 8;
  config.batch.micro_sequences = 1;
  config.parallel.dp = 4;
  return config;
}

inline PlannedRun run_with(const RunConfig& config, double memory_bytes) {
  const Hardware hardware = small_cluster();
  PlannedRun run = planned_run(config, host_of(hardware), hardware).value();
  run.memory_bytes = memory_bytes;
  run.recomputes = {Recompute::None, Recompute::Full};
  return run;
}

}  // namespace trireme
