#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "checkpoint/load.h"
#include "compile/run_plan.h"
#include "data/token_source.h"
#include "train/engine.h"

namespace trireme {

// Returns the configuration for evaluating the model of a run. It takes model (without dropout),
// precision, seed, reproducibility, kernels and size of micro-batches from `trained`. All other
// keys have their defaults, so the layout is that of one rank.
RunConfig evaluation_config(const RunConfig& trained);

struct EvaluationRequest {
  const Checkpoint& checkpoint;
  const RunConfig& config;  // from evaluation_config(); its layout decides the number of ranks
  HostFacts host;
  const TokenSource& data;
  int64_t num_sequences = 0;  // evaluates the samples 0 .. num_sequences - 1 of `data`
  // Called on rank 0 once the weights are loaded; may be empty.
  std::function<void(const RunPlan&)> on_ready = {};
};

// Evaluates the weights of a checkpoint on all ranks of a layout. The ranks are threads of this
// process, or processes under mpirun (run.backend = "mpi"); run.backend = "tcp" is a Usage error.
// Losses of micro-batches are added in one fixed order, so dp, pp and the number of threads change
// no bit of the result. All processes return the same result.
Result<EvalResult> evaluate_checkpoint(const EvaluationRequest& request);

}  // namespace trireme
