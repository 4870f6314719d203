#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/diagnosis.h"
#include "predict/op_times.h"
#include "predict/predict.h"
#include "train/checkpoint_saver.h"
#include "train/rank_measurement.h"

namespace trireme {

// Plans of at most so many ranks list each rank beside the classes.
inline constexpr int kMostListedRanks = 64;

// The text of plan.json: parameters, FLOPs and the predictions for every class of ranks.
// docs/cli.md describes its keys.
std::string plan_json(const RunPlan& plan, const Predictions& predicted, const Hardware& hardware);

// One rank of a plan, as an element of "ranks".
nlohmann::ordered_json planned_rank(const RunPlan& plan, const Predictions& predicted,
                                    int position);

// What the failures of ranks have cost a run that has survived them.
struct SurvivedFailures {
  int failures = 0;
  int64_t redone_steps = 0;  // steps done twice
  // Time until each failure was made up for: from the last step before it to the end of the same
  // step when it is done again, or to the moment at which the next step can begin.
  double lost_s = 0.0;
  double effective = 1.0;  // 1 - lost_s / time since training began
};

// The facts that only a finished run knows.
struct RunSummary {
  int64_t steps = 0;
  double final_loss = 0.0;
  double val_loss = 0.0;         // 0: not evaluated
  double bits_per_byte = 0.0;    // 0: unknown
  double step_s = 0.0;           // median
  double peak_flops = 0.0;       // compute ceiling by which MFU is computed
  double taken_by_others = 0.0;  // share of the cores
  double share_left = 1.0;       // of the time of a step
  int64_t skipped_steps = 0;
  double noise_scale = 0.0;  // in tokens; 0: not measured
  SaveCounts saves;
  int64_t rss_peak_bytes = 0;
  double seconds = 0.0;
  std::string hardware;                                          // hardware of the prediction
  OpComparison ops;                                              // of rank 0, a step
  std::vector<StepFinding> findings;                             // by what ranks have measured
  std::optional<SurvivedFailures> survived;                      // of a run under `trireme launch`
  std::string end;                                               // "finished" or "stopped"
  std::vector<std::pair<std::string, std::string>> environment;  // host, kernels, commit, ...
};

// The text of summary.json: the keys of plan.json with `measured` beside `predicted`.
std::string summary_json(const RunPlan& plan, const Predictions& predicted,
                         const std::vector<RankMeasurement>& measured, const RunSummary& summary);

}  // namespace trireme
