#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/corruption_alarm.h"
#include "planner/diagnosis.h"
#include "predict/op_times.h"
#include "predict/predict.h"
#include "train/checkpoint_saver.h"
#include "train/corruption_checks.h"
#include "train/observer.h"
#include "train/rank_measurement.h"
#include "train/train_position.h"

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

// The data of a run, and the losses of simple predictors for comparison.
struct DataFacts {
  struct File {
    std::string use;  // "training data" or "validation data"
    std::string path;
    int64_t tokens = 0;
    int64_t documents = 0;
    std::optional<double> share;  // of the training samples; only in a mixture
  };
  std::vector<File> files;  // empty for synthetic data
  // Losses in nats per token; 0: not known.
  double uniform = 0.0;          // if all tokens are equally likely
  double unigram = 0.0;          // of the validation data, from counts of training tokens
  double bigram = 0.0;           // the same from counts of pairs of tokens
  double entropy = 0.0;          // of synthetic data: the lowest loss that a model can reach
  int64_t counted_tokens = 0;    // training tokens that were counted
  double bytes_per_token = 0.0;  // of the validation data
};

// The facts that only a finished run knows.
struct RunSummary {
  int64_t steps = 0;
  double final_loss = 0.0;
  double val_loss = 0.0;               // 0: not evaluated
  double bits_per_byte = 0.0;          // 0: unknown
  std::optional<double> val_accuracy;  // of nets of images
  Validation best;                     // the best validation of the run
  std::optional<double> epoch;         // passes over the training data; absent: they never end
  double step_s = 0.0;                 // median
  double peak_flops = 0.0;             // compute ceiling by which MFU is computed
  std::optional<RaisedPeak> raised_peak;
  double taken_by_others = 0.0;  // share of the cores
  double share_left = 1.0;       // of the time of a step
  int64_t skipped_steps = 0;
  int64_t left_out_samples = 0;  // before the data position
  double noise_scale = 0.0;      // in tokens; 0: not measured
  SaveCounts saves;
  CorruptionCounts corruption_checks;
  std::vector<CorruptionAlarm> corruptions;  // that these checks have found, in all epochs
  // Failures after which the job has gone back to an older checkpoint than the newest one.
  struct WentBack {
    int64_t after_step = 0;
    int64_t latest_step = 0;  // the checkpoint is of this step or an earlier one
    std::string why;
  };
  std::vector<WentBack> went_back;
  int64_t rss_peak_bytes = 0;
  double seconds = 0.0;
  std::string hardware;                      // hardware of the prediction
  OpComparison ops;                          // of rank 0, a step
  std::vector<StepFinding> findings;         // by what ranks have measured
  std::optional<SurvivedFailures> survived;  // of a run under `trireme launch`
  GoodputReport goodput;
  DataFacts data;
  // The first rank was lost after the last step: the results are those of metrics.jsonl.
  bool is_late = false;
  // "finished", "stopped", "stopped_early" by run.stop_patience, or "corrupt": a check for silent
  // corruption has ended the run.
  std::string end;
  std::vector<std::pair<std::string, std::string>> environment;  // host, kernels, commit, ...
};

// The text of summary.json: the keys of plan.json with `measured` beside `predicted`.
std::string summary_json(const RunPlan& plan, const Predictions& predicted,
                         const std::vector<RankMeasurement>& measured, const RunSummary& summary);

}  // namespace trireme
