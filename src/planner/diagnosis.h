#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/step_shares.h"
#include "schema/run_config.h"

namespace trireme {

enum class FindingKind : uint8_t {
  Idle,            // a rank has nothing to do until another stage is done
  Sync,            // ranks meet in collectives that no setting could hide
  MissingOverlap,  // transfers that could run beside computation, and do not
  Straggler,       // one rank computes longer than the others
};
std::string_view name_of(FindingKind kind);  // such as "missing overlap"

// A reason why a step takes longer than its computation.
struct StepFinding {
  FindingKind kind = FindingKind::Idle;
  double share = 0.0;    // of the step, that this costs a rank in the mean
  std::string sentence;  // what happens, and why
  std::string setting;   // what would change it; "": nothing that was priced makes a step shorter
  double gain = 0.0;     // share of the step that `setting` saves, as predicted
};

// Takes a setting with its gain, unless it gains less than a thousandth of the step or less than
// the one before.
void offer(const std::string& setting, double gain, StepFinding& finding);

// A diagnosis reads these facts about a step.
struct Symptoms {
  // The configuration as it is planned: its vocabulary and its sequences of a step are set.
  const RunConfig& config;
  int64_t num_microbatches = 0;
  int ranks_per_node = 1;  // of the smallest node
  StepShares shares;       // predicted or measured
};

// Prices for the gains of a diagnosis, both in predicted seconds of a step.
struct RemedyPrices {
  double step_s = 0.0;  // as configured
  // With another configuration; nothing if it is refused.
  std::function<std::optional<double>(const RunConfig&)> with;
  // If the rank with this index computes so many times as long; empty: ranks of one stage are
  // alike.
  std::function<std::optional<double>(int rank, double factor)> with_slow_rank;
};

// A finding costs at least this share of the step.
inline constexpr double kLeastShare = 0.01;

// Returns the findings, greatest share first. The gain
// of each is that of the best of the settings that remedies.h knows against it, and is never
// guessed: all of them are priced.
std::vector<StepFinding> diagnose(const Symptoms& symptoms, const RemedyPrices& prices);

}  // namespace trireme
