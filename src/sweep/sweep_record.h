#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sweep/lr_range.h"
#include "sweep/sweep_points.h"
#include "sweep/trial_curve.h"

namespace trireme {

// Waiting: not begun. Running: begun; it is running, or was broken off. Finished: it has trained
// all its steps, or ended by run.stop_patience. Stopped: hopeless beside the others. Diverged: its
// loss was not finite. Failed: it ended with an error, and is tried again.
enum class TrialState { Waiting, Running, Finished, Stopped, Diverged, Failed };
std::string_view name_of(TrialState state);

struct SweepTrial {
  SweepPoint point;
  TrialState state = TrialState::Waiting;
  int64_t steps = 0;               // that its result is about
  std::optional<double> loss;      // mean training loss of its last twentieth of the run
  std::optional<double> val_loss;  // the lowest validation up to `steps`
  int64_t val_step = 0;            // its step
  std::vector<double> rungs;       // losses at the rungs (MedianRule)
  std::string reason;              // why it did not finish
};

// What a sweep is: its points and how they are compared. Two invocations with equal specs continue
// the same sweep.
struct SweepSpec {
  std::vector<std::string> files;      // configurations
  std::vector<std::string> overrides;  // --set
  std::string resume;                  // the checkpoint with which every trial begins; "": none
  std::vector<SweptKey> keys;          // of a grid or of random draws
  std::optional<int64_t> random;       // --random
  uint64_t seed = 0;
  bool stops_early = true;
  double grace = 0.0;
  std::optional<LrRange> lr_range;  // of a range test, which has one trial and no keys
  int64_t total_steps = 0;          // run.steps of the trials; 0: they differ
  // The resolved configuration of the first trial as JSON.
  std::string config;
};

// The content of sweep.json: all that is known about a sweep. It holds no times, so a sweep that
// was broken off and resumed leaves the same file.
struct SweepRecord {
  SweepSpec spec;
  std::vector<SweepTrial> trials;
  LrFinding finding;  // of a range test that has ended

  bool is_done() const;
  // Indices of the trials, the best first: finished ones, then those that were stopped, by their
  // loss; then the others in their order. Validation counts if all of a kind have it.
  std::vector<size_t> ranking() const;
  std::optional<size_t> best() const;  // a finished trial; nullopt: none has finished
};

// "trial-001" for index 0.
std::string trial_name(size_t index);

// JSON with a checksum (base/sealed_json.h).
std::string sweep_json(const SweepRecord& record);
Result<SweepRecord> parse_sweep_json(std::string_view text);

// Says in what `given` differs from the sweep that `recorded` describes: a sentence, or "" if both
// are the same sweep.
std::string difference_of(const SweepSpec& recorded, const SweepSpec& given);

}  // namespace trireme
