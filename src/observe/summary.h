#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "predict/predict.h"
#include "train/rank_measurement.h"

namespace trireme {

// Plans of so many ranks show each of them beside their classes.
inline constexpr int kMostListedRanks = 64;

// plan.json: parameters, FLOPs and what is predicted of every class of ranks, with the keys of
// docs/cli.md.
std::string plan_json(const RunPlan& plan, const Predictions& predicted, const Hardware& hardware);

// One rank of a plan, as an element of "ranks".
nlohmann::ordered_json planned_rank(const RunPlan& plan, const Predictions& predicted,
                                    int position);

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
std::string summary_json(const RunPlan& plan, const Predictions& predicted,
                         const std::vector<RankMeasurement>& measured, const RunSummary& summary);

}  // namespace trireme
