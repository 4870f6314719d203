#include "planner/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
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
      offer(setting, 1.0 - *entry->second / prices_.step_s, finding);
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

StepFinding uneven_finding(const Symptoms& symptoms, Remedies& remedies) {
  const Slower& stage = symptoms.shares.stage;
  StepFinding finding{.kind = FindingKind::Straggler,
                      .share = stage.more_s() / symptoms.shares.step_s};
  finding.sentence = fmt::format(
      "Stage {} computes {} of the step longer than the median stage, and the others wait for it: "
      "their waits contain this.",
      stage.index, percent(finding.share));
  remedies.take_best(changes_against_uneven_stages(symptoms.config), finding);
  return finding;
}

StepFinding slow_rank_finding(const Symptoms& symptoms, const RemedyPrices& prices) {
  const Slower& rank = symptoms.shares.rank;
  StepFinding finding{.kind = FindingKind::Straggler,
                      .share = rank.more_s() / symptoms.shares.step_s};
  finding.sentence = fmt::format(
      "Rank {} computes {} of the step longer than the median rank of its stage, and the others "
      "wait for it: their waits contain this.",
      rank.index, percent(finding.share));
  if (!prices.with_slow_rank) return finding;
  const std::optional<double> slowed_s =
      prices.with_slow_rank(rank.index, rank.compute_s / rank.median_s);
  if (!slowed_s) return finding;
  offer(fmt::format("free the host of rank {} of other work, or replace its device", rank.index),
        1.0 - prices.step_s / *slowed_s, finding);
  return finding;
}

}  // namespace

std::string_view name_of(FindingKind kind) {
  constexpr std::string_view names[] = {"idle", "sync", "missing overlap", "straggler"};
  return names[size_t(kind)];
}

void offer(const std::string& setting, double gain, StepFinding& finding) {
  if (gain < std::max(kLeastGain, finding.gain)) return;
  finding.setting = setting;
  finding.gain = gain;
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
  if (shares.stage.more_s() >= least_s) findings.push_back(uneven_finding(symptoms, remedies));
  if (shares.rank.more_s() >= least_s) findings.push_back(slow_rank_finding(symptoms, prices));
  std::stable_sort(findings.begin(), findings.end(),
                   [](const StepFinding& a, const StepFinding& b) { return a.share > b.share; });
  return findings;
}

}  // namespace trireme
