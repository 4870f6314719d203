#pragma once

#include "schema/run_config.h"

namespace trireme {

// A model that can be split in most ways, for the tests of train/.
inline RunConfig some_run() {
  RunConfig config;
  config.model.layers = 4;
  config.model.d_model = 32;
  config.model.heads = 2;
  config.model.vocab_size = 64;
  config.model.seq_len = 16;
  config.data.source = DataSource::Synthetic;
  config.batch.global_sequences = 8;
  config.batch.micro_sequences = 1;
  config.precision.compute = ComputeChoice::Fp32;
  config.run.threads_per_rank = 1;
  config.trace.steps = 2;
  return config;
}

}  // namespace trireme
