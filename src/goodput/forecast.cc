#include "goodput/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace trireme {
namespace {

// A change is one that raises the share if it gains half a hundredth of a point, the last digit
// that is shown.
constexpr double kLeastGain = 5e-5;

constexpr double kMostIntervalS = kSecondsOfDay;  // even if nothing fails: users resume, too
constexpr double kMostFailures = 1e6;             // of one run
constexpr double kFailuresOfAllRuns = 3e6;        // that are simulated
constexpr int kFewestRuns = 20;
constexpr int kRunsOfCurve = 200;
constexpr int kCurveSide = 8;            // points on each side of Young's interval
constexpr double kCurvePerDoubling = 4;  // points
constexpr double kRareOverlap = 0.2;     // the formula holds while failures lose at most this
constexpr int64_t kShownSizes[] = {8, 64, 1024, 4096, 16384, 131072};

// The failures of the job by the tier from which it resumes: [0] disk, [1] memory.
std::array<FailuresOfTier, 2> failures_of_tiers(const std::vector<JobCause>& causes,
                                                const JobPolicy& policy) {
  std::array<FailuresOfTier, 2> tiers;
  for (const JobCause& cause : causes) {
    FailuresOfTier& tier = tiers[policy.resumes_from_memory(cause.domain) ? 1 : 0];
    const double per_s = cause.per_day / kSecondsOfDay;
    tier.per_s += per_s;
    tier.restart_s += per_s * cause.restart_s * policy.restart_factor;
  }
  for (FailuresOfTier& tier : tiers) {
    if (tier.per_s > 0.0) tier.restart_s /= tier.per_s;
  }
  return tiers;
}

std::array<SavePolicy, 2> tiers_of(const JobPolicy& policy) {
  return {policy.disk, policy.memory.value_or(SavePolicy{})};
}

// An evaluation of several policies on the same failures, so that their difference is not noise.
struct SimulatedRuns {
  std::vector<std::vector<double>> shares;  // [policy][run]
  std::vector<JobTime> of_first;            // [run] of the first policy

  double mean(size_t policy) const {
    const std::vector<double>& all = shares[policy];
    return std::accumulate(all.begin(), all.end(), 0.0) / double(all.size());
  }
};

class Forecaster {
 public:
  explicit Forecaster(const GoodputQuestion& question)
      : question_(question), seconds_(question.days * kSecondsOfDay) {
    causes_ = causes_of_job(question.rates, question.devices);
    const double failures = failures_per_day(causes_) * question.days;
    const double affordable = kFailuresOfAllRuns / std::max(failures, 1.0);
    num_runs_ = std::min(std::max(int(affordable), kFewestRuns), question.most_runs);
  }

  GoodputForecast make() {
    GoodputForecast forecast;
    forecast.question = question_;
    forecast.mttf_s = mttf_s(question_.rates, question_.devices);
    forecast.hosts = question_.rates.hosts_of(question_.devices);
    forecast.spares = spares_of_job(question_.rates, question_.devices);
    num_spares_ = forecast.spares.hosts;
    forecast.by_size = by_size();
    forecast.young = intervals_by(young_interval_s, question_.has_memory_tier);
    forecast.daly = intervals_by(daly_interval_s, question_.has_memory_tier);
    forecast.simulated = search_intervals(forecast.young, forecast.curve);
    const JobPolicy policy = policy_of(forecast.simulated, question_.has_memory_tier);
    evaluate(policy, forecast);
    return forecast;
  }

 private:
  JobPolicy policy_of(const TierIntervals& intervals, bool has_memory) const {
    JobPolicy policy{.disk = {.interval_s = intervals.disk_s,
                              .save_s = question_.disk_save_s,
                              .delay_s = question_.disk_delay_s},
                     .memory_survives = question_.rates.memory_survives};
    if (has_memory) policy.memory = {{intervals.memory_s, question_.memory_save_s, 0.0}};
    return policy;
  }

  double formula_of(const JobPolicy& policy) const {
    return expected_share(tiers_of(policy), failures_of_tiers(causes_, policy));
  }

  double allowed_disk_s(double interval_s) const {
    const double least = std::max(question_.step_s, question_.disk_delay_s);
    return std::max(least, std::min(interval_s, std::max(kMostIntervalS, least)));
  }
  double allowed_memory_s(double interval_s) const {
    return std::max(question_.step_s,
                    std::min(interval_s, std::max(kMostIntervalS, question_.step_s)));
  }

  // The interval of each tier by a formula, with the failures for which the tier is needed.
  TierIntervals intervals_by(double (*interval_s)(double, double), bool has_memory) const {
    const auto of = [&](double save_s, const FailuresOfTier& failures) {
      return failures.per_s > 0.0 ? interval_s(save_s, 1.0 / failures.per_s) : kMostIntervalS;
    };
    const auto with_memory = failures_of_tiers(causes_, policy_of({}, true));
    const auto in_use = failures_of_tiers(causes_, policy_of({}, has_memory));
    return {allowed_memory_s(of(question_.memory_save_s, with_memory[1])),
            allowed_disk_s(of(question_.disk_save_s, in_use[0]))};
  }

  SimulatedRuns simulate(const FailingJob& job, const std::vector<JobPolicy>& policies,
                         int runs) const {
    SimulatedRuns simulated;
    simulated.shares.resize(policies.size());
    for (int run = 0; run < runs; ++run) {
      const std::vector<FailureEvent> failures =
          draw_failures(job, seconds_, question_.seed + uint64_t(run));
      for (size_t i = 0; i < policies.size(); ++i) {
        JobTime time = simulate_job(failures, job.causes, policies[i], seconds_);
        simulated.shares[i].push_back(time.useful_s / seconds_);
        if (i == 0) simulated.of_first.push_back(std::move(time));
      }
    }
    return simulated;
  }

  FailingJob job() const { return failing_job(question_.rates, question_.devices, num_spares_); }

  // Tries intervals of one tier around `start` and returns the best one.
  double best_interval(const TierIntervals& start, double TierIntervals::*tier,
                       std::vector<ShareOfInterval>& curve) const {
    std::vector<JobPolicy> policies;
    curve.clear();
    for (int i = -kCurveSide; i <= kCurveSide; ++i) {
      TierIntervals intervals = start;
      const double wanted = start.*tier * std::exp2(double(i) / kCurvePerDoubling);
      intervals.*tier =
          tier == &TierIntervals::disk_s ? allowed_disk_s(wanted) : allowed_memory_s(wanted);
      if (!curve.empty() && intervals.*tier == curve.back().interval_s) continue;
      policies.push_back(policy_of(intervals, question_.has_memory_tier));
      curve.push_back({.interval_s = intervals.*tier, .formula = formula_of(policies.back())});
    }
    const SimulatedRuns simulated = simulate(job(), policies, std::min(num_runs_, kRunsOfCurve));
    size_t best = 0;
    for (size_t i = 0; i < curve.size(); ++i) {
      curve[i].simulated = simulated.mean(i);
      if (curve[i].simulated > curve[best].simulated) best = i;
    }
    return curve[best].interval_s;
  }

  TierIntervals search_intervals(const TierIntervals& young,
                                 std::vector<ShareOfInterval>& curve) const {
    TierIntervals best = young;
    best.disk_s = best_interval(best, &TierIntervals::disk_s, curve);
    if (question_.has_memory_tier) {
      best.memory_s = best_interval(best, &TierIntervals::memory_s, curve);
    }
    return best;
  }

  std::vector<MttfOfSize> by_size() const {
    std::vector<int64_t> sizes(std::begin(kShownSizes), std::end(kShownSizes));
    sizes.push_back(question_.devices);
    for (const PublishedMttf& point : question_.rates.published) sizes.push_back(point.devices);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    std::vector<MttfOfSize> rows;
    for (const int64_t devices : sizes) {
      MttfOfSize row{.devices = devices, .mttf_s = mttf_s(question_.rates, devices)};
      for (const PublishedMttf& point : question_.rates.published) {
        if (point.devices == devices) row.published_s = point.hours * 3600.0;
      }
      rows.push_back(row);
    }
    return rows;
  }

  void evaluate(const JobPolicy& policy, GoodputForecast& forecast) const {
    std::vector<JobPolicy> policies = {policy};
    std::vector<std::string> names = {""};
    const auto add = [&](const JobPolicy& other, std::string name) {
      policies.push_back(other);
      names.push_back(std::move(name));
    };
    JobPolicy fast = policy;
    fast.restart_factor = 0.1;
    add(fast, "restart ten times faster");
    if (!question_.has_memory_tier) {
      add(policy_of(intervals_by(young_interval_s, true), true), "checkpoints in memory, too");
    }
    const bool is_configured = question_.disk_interval_s > 0.0 || question_.has_memory_tier;
    if (is_configured) add(policy_of(configured_intervals(), question_.has_memory_tier), "");
    const SimulatedRuns runs = simulate(job(), policies, num_runs_);
    describe(runs, policy, forecast);
    for (size_t i = 1; i < policies.size(); ++i) {
      const double share = runs.mean(i);
      if (names[i].empty()) {
        forecast.configured = {configured_intervals(), share, formula_of(policies[i])};
      } else {
        forecast.changes.push_back({names[i], share, share - forecast.mean});
      }
    }
    add_other_clusters(policy, forecast);
    std::erase_if(forecast.changes,
                  [](const GoodputChange& change) { return change.gain < kLeastGain; });
    std::stable_sort(forecast.changes.begin(), forecast.changes.end(),
                     [](const auto& a, const auto& b) { return a.gain > b.gain; });
  }

  TierIntervals configured_intervals() const {
    const double never = std::max(seconds_, question_.disk_interval_s);
    return {question_.memory_interval_s,
            question_.disk_interval_s > 0.0 ? question_.disk_interval_s : never};
  }

  // Changes of the cluster, which change the failures themselves.
  void add_other_clusters(const JobPolicy& policy, GoodputForecast& forecast) const {
    const auto add = [&](const FailureRates& rates, const std::string& name) {
      const FailingJob other = failing_job(rates, question_.devices, num_spares_);
      const double share = simulate(other, {policy}, num_runs_).mean(0);
      forecast.changes.push_back({name, share, share - forecast.mean});
    };
    FailureRates smaller = question_.rates;
    bool has_large = false;
    for (FailureCause& cause : smaller.causes) {
      if (cause.domain <= FailureDomain::Host) continue;
      cause.domain = FailureDomain::Host;
      has_large = true;
    }
    if (has_large) add(smaller, "failures of racks and pods take one host");
    const double share = question_.rates.lemon_share, factor = question_.rates.lemon_factor;
    if (share > 0.0 && factor > 1.0) {
      FailureRates sorted = question_.rates;
      sorted.lemon_share = 0.0;
      for (FailureCause& cause : sorted.causes) {
        const bool is_of_host =
            cause.domain == FailureDomain::Device || cause.domain == FailureDomain::Host;
        if (is_of_host) cause.per_host_day /= 1.0 - share + share * factor;
      }
      add(sorted, "no lemon hosts");
    }
  }

  void describe(const SimulatedRuns& runs, const JobPolicy& policy,
                GoodputForecast& forecast) const {
    forecast.shares = runs.shares.front();
    std::sort(forecast.shares.begin(), forecast.shares.end());
    forecast.mean = runs.mean(0);
    forecast.formula = formula_of(policy);
    forecast.formula_holds =
        lost_by_failures(tiers_of(policy), failures_of_tiers(causes_, policy)) <= kRareOverlap;
    for (const JobCause& cause : causes_) {
      forecast.by_cause.push_back({.cause = cause, .count = cause.per_day * question_.days});
    }
    const double weight = 1.0 / double(runs.of_first.size());
    for (const JobTime& time : runs.of_first) {
      forecast.saving_share += weight * time.saving_s / seconds_;
      for (size_t i = 0; i < causes_.size(); ++i) {
        CauseCost& cost = forecast.by_cause[i];
        cost.simulated_count += weight * time.failures[i];
        cost.down_s += weight * time.down_s[i];
        cost.redone_s += weight * time.redone_s[i];
      }
    }
    for (const CauseCost& cost : forecast.by_cause) {
      forecast.down_share += cost.down_s / seconds_;
      forecast.redone_share += cost.redone_s / seconds_;
    }
  }

  const GoodputQuestion& question_;
  double seconds_ = 0.0;
  std::vector<JobCause> causes_;
  int num_runs_ = 1;
  int64_t num_spares_ = 0;
};

}  // namespace

double GoodputForecast::percentile(double share_of_runs) const {
  const double place = share_of_runs * double(shares.size() - 1);
  const auto below = size_t(place);
  const size_t above = std::min(below + 1, shares.size() - 1);
  return std::lerp(shares[below], shares[above], place - double(below));
}

Result<GoodputForecast> forecast_goodput(const GoodputQuestion& question) {
  const double per_day = failures_per_day(causes_of_job(question.rates, question.devices));
  if (per_day * question.days > kMostFailures) {
    return usage(fmt::format(
        "--failures: {:.3g} failures a day of {} devices are {:.3g} in {} days, and more than {:g} "
        "cannot be simulated: take fewer --days, or check the rates",
        per_day, question.devices, per_day * question.days, question.days, kMostFailures));
  }
  return Forecaster(question).make();
}

}  // namespace trireme
