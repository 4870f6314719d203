#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/predict.h"

namespace trireme {

struct RankMeasurement {
  int position = 0;  // in the mesh
  int64_t peak_bytes = 0;
  StepTimes time;
  AxisBytes traffic;
};

// plan.json: parameters, FLOPs and per rank what is predicted, with the keys of docs/cli.md.
std::string plan_json(const RunPlan& plan, const std::vector<RankPrediction>& predicted);

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
  std::string hardware;                                          // what the prediction is for
  std::string end;                                               // "finished", "stopped"
  std::vector<std::pair<std::string, std::string>> environment;  // host, kernels, commit, ...
};

// summary.json: the same keys with `measured` beside `predicted`.
std::string summary_json(const RunPlan& plan, const std::vector<RankPrediction>& predicted,
                         const std::vector<RankMeasurement>& measured, const RunSummary& summary);

}  // namespace trireme
