#include "planner/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "planner/layout_choice.h"
#include "planner/remedies.h"
#include "schema/run_config_choices.h"

namespace trireme {
namespace {

constexpr double kLeastGain = 0.001;  // of a setting

std::string percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }

// Prices every configuration once: several findings may ask for the same.
class Remedies {
 public:
  Remedies(const RunConfig& config, const RemedyPrices& prices)
      : config_(config), prices_(prices) {}

  void take_best(const std::vector<RunConfig>& changes, StepFinding& finding) {
    for (const RunConfig& change : changes) {
      const std::string setting = set_options(config_, change);
      const auto [entry, is_new] = seconds_.try_emplace(setting);
      if (is_new) entry->second = prices_.with(change);
      if (!entry->second) continue;
      const double gain = 1.0 - *entry->second / prices_.step_s;
      if (gain < std::max(kLeastGain, finding.gain)) continue;
      finding.setting = setting;
      finding.gain = gain;
    }
  }

 private:
  const RunConfig& config_;
  const RemedyPrices& prices_;
  std::map<std::string, std::optional<double>> seconds_;
};

StepFinding idle_finding(const Symptoms& symptoms, Remedies& remedies) {
  const ParallelConfig& parallel = symptoms.config.parallel;
  StepFinding finding{.kind = FindingKind::Idle,
                      .share = symptoms.shares.idle_s / symptoms.shares.step_s};
  finding.sentence = fmt::format(
      "Ranks are idle for {} of the step, because they wait for other stages: {} stages with "
      "schedule {} share {} micro-batches.",
      percent(finding.share), parallel.pp, name_of(parallel.schedule), symptoms.num_microbatches);
  remedies.take_best(changes_against_idle(symptoms.config), finding);
  return finding;
}

// What a rank waits for in transfers of an axis, and why nothing hides them.
struct Exposure {
  std::string_view axis;
  FindingKind kind;
  std::string why;
};

std::vector<Exposure> exposures_of(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const bool hides_tp = parallel.tp_overlap;
  return {{"dp", FindingKind::MissingOverlap,
           parallel.zero == 3 ? "gathers of parameters and sums of gradients take longer than the "
                                "computation beside them"
                              : "sums of gradients take longer than the computation beside them"},
          {"tp", hides_tp ? FindingKind::Sync : FindingKind::MissingOverlap,
           hides_tp ? "every layer waits for what its tp ranks exchange, beyond what "
                      "parallel.tp_overlap hides"
                    : "every layer waits for what its tp ranks exchange, and parallel.tp_overlap "
                      "is off"},
          {"pp", FindingKind::MissingOverlap,
           "messages between stages arrive after their receiver has become free"},
          {"cp", FindingKind::Sync, "attention waits for the keys and values of other cp ranks"},
          {"ep", FindingKind::Sync, "experts wait for the tokens of other ranks"},
          {"world", FindingKind::Sync,
           "all ranks meet once in a step, and the first of them wait for the last"},
          {"file", FindingKind::MissingOverlap,
           fmt::format("the step waits for the file of memory.offload = {}",
                       name_of(config.memory.offload))}};
}

StepFinding exposure_finding(const Exposure& exposure, const Symptoms& symptoms,
                             Remedies& remedies) {
  StepFinding finding{.kind = exposure.kind,
                      .share = symptoms.shares.exposed_of(exposure.axis) / symptoms.shares.step_s};
  finding.sentence =
      fmt::format("Transfers of {} take {} of the step in which nothing is computed: {}.",
                  exposure.axis, percent(finding.share), exposure.why);
  remedies.take_best(
      changes_against_exposed(symptoms.config, exposure.axis, symptoms.ranks_per_node), finding);
  return finding;
}

StepFinding straggler_finding(const Symptoms& symptoms, const RemedyPrices& prices,
                              Remedies& remedies) {
  const StepShares& shares = symptoms.shares;
  const double more_s = shares.slowest_compute_s - shares.median_compute_s;
  StepFinding finding{.kind = FindingKind::Straggler, .share = more_s / shares.step_s};
  finding.sentence = fmt::format(
      "{} computes {} of the step longer than the median, and the others wait for it: their waits "
      "contain this.",
      symptoms.rank_name, percent(finding.share));
  if (!prices.with_slow_rank) {
    remedies.take_best(changes_against_uneven_stages(symptoms.config), finding);
    return finding;
  }
  const double factor = shares.slowest_compute_s / shares.median_compute_s;
  const std::optional<double> slowed_s = prices.with_slow_rank(factor);
  const double gain = slowed_s ? 1.0 - prices.step_s / *slowed_s : 0.0;
  if (gain < kLeastGain) return finding;
  finding.setting = fmt::format("replace the device or the host of {}", symptoms.rank_name);
  finding.gain = gain;
  return finding;
}

}  // namespace

std::string_view name_of(FindingKind kind) {
  constexpr std::string_view names[] = {"idle", "sync", "missing overlap", "straggler"};
  return names[size_t(kind)];
}

std::vector<StepFinding> diagnose(const Symptoms& symptoms, const RemedyPrices& prices) {
  const StepShares& shares = symptoms.shares;
  const double least_s = kLeastShare * shares.step_s;
  std::vector<StepFinding> findings;
  if (least_s <= 0.0) return findings;
  Remedies remedies(symptoms.config, prices);
  if (shares.idle_s >= least_s) findings.push_back(idle_finding(symptoms, remedies));
  for (const Exposure& exposure : exposures_of(symptoms.config)) {
    if (shares.exposed_of(exposure.axis) < least_s) continue;
    findings.push_back(exposure_finding(exposure, symptoms, remedies));
  }
  if (shares.slowest_compute_s - shares.median_compute_s >= least_s) {
    findings.push_back(straggler_finding(symptoms, prices, remedies));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const StepFinding& a, const StepFinding& b) { return a.share > b.share; });
  return findings;
}

}  // namespace trireme
