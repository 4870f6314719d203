#pragma once

#include <vector>

#include "base/input_file.h"
#include "base/result.h"
#include "compile/run_plan.h"
#include "predict/op_times.h"

namespace trireme {

// Result of `trireme bench train`.
struct Throughput {
  std::vector<double> step_seconds;  // duration of each timed step, in order
  double median_step_s = 0.0;
  double tokens_per_s = 0.0;
  double mfu = 0.0;
  double peak_flops = 0.0;  // of all ranks
  double peak_flops_of_rank = 0.0;
  int64_t arena_peak_bytes = 0;
  int64_t rss_peak_bytes = 0;
  double first_step_after_s = 0.0;  // from the call to the start of step 1
  double final_loss = 0.0;
  OpComparison ops;  // of a step of rank 0, if asked for
};

// Trains `num_steps` steps on synthetic data with the model's vocabulary after `num_warmup` untimed
// steps. The data may have the vocabulary; `open_input` opens files that are not on this machine.
// It writes no files. With num_steps = 0 it times about five seconds. `times_ops`: of the timed
// steps, beside prices for the measured ceilings.
Result<Throughput> measure_throughput(const RunConfig& config, const HostFacts& host,
                                      int64_t num_warmup, int64_t num_steps, bool times_ops,
                                      const OpenInput& open_input = {});

}  // namespace trireme
