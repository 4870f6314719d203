#pragma once

#include "base/result.h"
#include "program/accumulate.h"
#include "spec/memory_plan.h"
#include "spec/model_spec.h"
#include "spec/program.h"
#include "spec/run_config.h"
#include "spec/stage_tables.h"

namespace trireme {

// What the plan must know about the machine and the data.
struct HostFacts {
  int64_t memory_bytes = 0;  // available to this process; 0: unknown, nothing is refused
  int num_cores = 1;
  int64_t data_vocab_size = 0;  // of the tokenizer or token file; 0: none
};

// A run compiled before it starts: everything that the runtime executes and the reports print.
struct RunPlan {
  RunConfig config;
  ModelSpec model;
  StageSpec stage;
  StageShape shape;
  std::vector<ParamSpec> params;
  StageTables tables;
  Program program;
  MicrobatchMap microbatches;
  MemoryPlan memory;

  int num_threads = 1;
  int64_t global_sequences = 0;
  int64_t num_microbatches = 0;  // per step: gradient accumulation
  int64_t num_params = 0;
  ModelFlops flops_per_token;

  int64_t tokens_per_step() const { return global_sequences * model.seq_len; }
};

// Usage errors name the key; Infeasible ones name the tensor, the moment and the cheapest change
// that would fit.
Result<RunPlan> make_plan(const RunConfig& config, const HostFacts& host);

}  // namespace trireme
