#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/run_plan.h"

namespace trireme {

// Seconds of a step by what they were spent on.
struct StepTimes {
  double compute = 0.0;
  double exposed_comm = 0.0;
  double bubble = 0.0;
  double step = 0.0;
};

struct RankPrediction {
  StepTimes time;
};
struct RankMeasurement {
  int64_t peak_bytes = 0;
  StepTimes time;
};

// plan.json: parameters, FLOPs and per rank what is predicted, with the keys of docs/cli.md.
std::string plan_json(const RunPlan& plan, const RankPrediction& predicted);

// What a finished run adds.
struct RunSummary {
  int64_t steps = 0;
  double final_loss = 0.0;
  double val_loss = 0.0;       // 0: not evaluated
  double bits_per_byte = 0.0;  // 0: unknown
  double step_s = 0.0;         // median
  double peak_flops = 0.0;     // ceiling that MFU divides by
  int64_t skipped_steps = 0;
  int64_t rss_peak_bytes = 0;
  double seconds = 0.0;
  std::string end;                                               // "finished", "stopped"
  std::vector<std::pair<std::string, std::string>> environment;  // host, kernels, commit, ...
};

// summary.json: the same keys with `measured` beside `predicted`.
std::string summary_json(const RunPlan& plan, const RankPrediction& predicted,
                         const RankMeasurement& measured, const RunSummary& summary);

}  // namespace trireme
