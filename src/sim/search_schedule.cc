#include "sim/search_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "program/generators.h"
#include "sim/greedy_schedule.h"

namespace trireme {
namespace {

struct Score {
  double makespan_s = 0;
  // Bubble of the longest span in 1/10,000; a smaller gain is not worth memory.
  int64_t span_rate = 0;
  double peak_live = 0;

  bool is_better_than(const Score& other) const {
    const auto differs = [](double a, double b) {
      return std::abs(a - b) > 1e-12 * std::max(a, b);
    };
    if (differs(makespan_s, other.makespan_s)) return makespan_s < other.makespan_s;
    if (span_rate != other.span_rate) return span_rate < other.span_rate;
    return peak_live < other.peak_live - 1e-9;
  }
};

double peak_live(const Schedule& schedule, double held_for_w) {
  double peak = 0;
  for (const Program& program : schedule.programs) {
    double live = 0;
    for (const Action& action : program) {
      if (action.kind == ActionKind::F || action.kind == ActionKind::FB) ++live;
      peak = std::max(peak, live);
      if (action.kind == ActionKind::B) live -= 1 - held_for_w;
      if (action.kind == ActionKind::W) live -= held_for_w;
      if (action.kind == ActionKind::BW || action.kind == ActionKind::FB) --live;
    }
  }
  return peak;
}

class Search {
 public:
  Search(const ScheduleShape& shape, const Costs& costs, const SearchLimits& limits)
      : shape_(shape), costs_(costs), budget_(limits.budget) {
    const double everything = static_cast<double>(shape.num_microbatches) * shape.num_chunks;
    max_live_ = limits.max_live > 0 ? limits.max_live : everything;
    const int stages = shape.num_ranks * shape.num_chunks;
    for (int stage = 0; stage < stages; ++stage) {
      const StageTimes& times = of_stage(costs.stages, stage);
      work_s_ += (times.f_s + times.b_s + times.w_s) * shape.num_microbatches / shape.num_ranks;
    }
    actions_ = int64_t{3} * shape.num_ranks * shape.num_chunks * shape.num_microbatches;
  }

  Result<Schedule> run() {
    try_named();
    const bool has_v = shape_.num_chunks > 1;
    const int64_t share = has_v ? budget_ / 2 : budget_;
    try_greedy(StagePlacement::Loop, share);
    if (has_v) try_greedy(StagePlacement::V, share);
    if (!best_.has_value()) {
      return Error{ErrorKind::Infeasible,
                   fmt::format("no schedule of {} stages, {} chunks and {} microbatches keeps at "
                               "most {:g} activations alive per rank; the least found is {:g}",
                               shape_.num_ranks, shape_.num_chunks, shape_.num_microbatches,
                               max_live_, least_live_)};
    }
    best_->kind = "auto";
    return *std::move(best_);
  }

 private:
  Score score(double makespan_s, double span_s, double peak) const {
    const double rate = span_s > 0 ? 1 - work_s_ / span_s : 0;
    return {makespan_s, std::llround(1e4 * rate), peak};
  }

  void consider(const Score& score, Schedule&& schedule) {
    least_live_ = std::min(least_live_, score.peak_live);
    if (score.peak_live > max_live_ + 1e-9) return;
    if (best_.has_value() && !score.is_better_than(best_score_)) return;
    best_ = std::move(schedule);
    best_score_ = score;
  }

  void try_named() {
    for (const std::string& kind : schedule_kinds()) {
      if (traits_of(kind).param_copies() > 1) continue;
      Result<Schedule> schedule = make_schedule(kind, shape_);
      if (!schedule.ok()) continue;
      const Result<Simulation> simulation = simulate(*schedule, costs_);
      if (!simulation.ok()) continue;
      const double peak = peak_live(*schedule, costs_.held_for_w);
      consider(score(simulation->makespan_s, simulation->longest_span_s, peak),
               std::move(*schedule));
    }
  }

  // How many forwards the first backward of rank r is behind its first forward: the number that
  // keeps the rank busy until then, times `stretch`, plus `more`.
  std::vector<int> ahead(double stretch, double more) const {
    const auto times = [&](int rank) { return of_stage(costs_.stages, rank); };
    const int p = shape_.num_ranks;
    std::vector<int> result(p);
    double round_trip = 0;
    const double delay =
        costs_.link.latency_s +
        (costs_.link.bytes_per_s > 0 ? costs_.message_bytes / costs_.link.bytes_per_s : 0);
    for (int rank = p - 1; rank >= 0; --rank) {
      const double forward_s = std::max(times(rank).f_s, 1e-12);
      const double forwards = std::min(1e9, 1 + stretch * round_trip / forward_s + more + 1e-9);
      result[rank] = std::clamp(static_cast<int>(std::floor(forwards)), 1, shape_.num_microbatches);
      round_trip += times(rank).f_s + times(rank).b_s + 2 * delay;
    }
    return result;
  }

  // p - r, 2(p - r) - 1 and values between: the slopes of the published schedules.
  std::vector<int> slope(double forwards_per_rank, double more) const {
    std::vector<int> result(shape_.num_ranks);
    for (int rank = 0; rank < shape_.num_ranks; ++rank) {
      const double forwards = 1 + forwards_per_rank * (shape_.num_ranks - 1 - rank) + more + 1e-9;
      result[rank] = std::clamp(static_cast<int>(std::floor(forwards)), 1, shape_.num_microbatches);
    }
    return result;
  }

  bool try_policy(StagePlacement placement, const GreedyPolicy& policy) {
    if (budget_ < actions_) return false;
    budget_ -= actions_;
    GreedyRun run = greedy_schedule(shape_, placement, costs_, policy);
    if (!run.is_complete) return false;
    const Score found = score(run.makespan_s, run.longest_span_s, run.peak_live);
    const bool is_better = !best_.has_value() || found.is_better_than(best_score_);
    consider(found, std::move(run.schedule));
    if (is_better) {
      best_policy_ = policy;
      best_placement_ = placement;
    }
    return is_better;
  }

  void try_greedy(StagePlacement placement, int64_t budget) {
    budget_ = budget;
    best_policy_.reset();
    std::vector<std::vector<int>> coarse;
    for (const double stretch : {1.0, 1.05, 0.95, 1.1, 0.9, 1.025, 0.975}) {
      for (const double more : {0.0, 1.0, 2.0, -1.0, 3.0, 4.0, 6.0}) {
        coarse.push_back(ahead(stretch, more));
      }
    }
    for (double per_rank = 1; per_rank < 2.3; per_rank += 0.125) {
      for (double more = -2; more <= 4; more += 1) coarse.push_back(slope(per_rank, more));
    }
    try_warmups(placement, coarse, {0.0, 0.1, 0.5}, max_live_);
    improve(placement);
    // Using less memory than allowed can be faster, because it keeps later ranks from running
    // ahead.
    const double per_chunk = static_cast<double>(shape_.num_ranks) * shape_.num_chunks;
    for (const double limit : {2 * per_chunk, 1.5 * per_chunk, per_chunk}) {
      if (limit < max_live_) try_warmups(placement, coarse, {0.1}, limit);
    }
    improve(placement);
    std::vector<std::vector<int>> fine;
    for (double per_rank = 1; per_rank < 2.3; per_rank += 0.125) {
      for (double more = -2; more <= 6; more += 0.25) fine.push_back(slope(per_rank, more));
    }
    const double limit = best_policy_.has_value() ? best_policy_->max_live : max_live_;
    try_warmups(placement, fine, {0.0, 0.05, 0.2}, limit);
    improve(placement);
  }

  void try_warmups(StagePlacement placement, const std::vector<std::vector<int>>& warmups,
                   std::initializer_list<double> fits, double max_live) {
    for (const std::vector<int>& max_ahead : warmups) {
      for (const double fit_w : fits) {
        try_policy(placement, {.max_ahead = max_ahead, .fit_w = fit_w, .max_live = max_live});
      }
    }
  }

  // Tries neighbours of the best policy as long as they improve it.
  void improve(StagePlacement placement) {
    bool improved = best_policy_.has_value() && best_placement_ == placement;
    while (improved && budget_ >= actions_) {
      improved = false;
      const GreedyPolicy start = *best_policy_;
      for (const double fit_w : {0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0}) {
        for (const bool prefer_f : {false, true}) {
          GreedyPolicy policy = start;
          policy.fit_w = fit_w;
          policy.prefer_f = prefer_f;
          improved = try_policy(placement, policy) || improved;
        }
      }
      for (int rank = 0; rank < shape_.num_ranks; ++rank) {
        for (const int change : {1, -1, 2, -2}) {
          GreedyPolicy policy = *best_policy_;
          policy.max_ahead[rank] = std::max(1, policy.max_ahead[rank] + change);
          improved = try_policy(placement, policy) || improved;
        }
      }
    }
  }

  ScheduleShape shape_;
  const Costs& costs_;
  int64_t budget_;
  int64_t actions_;  // of one schedule
  double max_live_;
  double work_s_ = 0;  // of one rank, on average
  double least_live_ = INFINITY;
  std::optional<Schedule> best_;
  Score best_score_;
  std::optional<GreedyPolicy> best_policy_;
  StagePlacement best_placement_ = StagePlacement::Loop;
};

}  // namespace

Result<Schedule> search_schedule(const ScheduleShape& asked, const Costs& costs,
                                 const SearchLimits& limits) {
  ScheduleShape shape = asked;
  if (shape.num_chunks == 0) shape.num_chunks = 1;
  TRIREME_TRY_DONE(check_counts(shape));
  TRIREME_TRY_DONE(check_costs(shape.num_ranks * shape.num_chunks, costs));
  if (!(limits.max_live >= 0)) {
    return Error{ErrorKind::Usage,
                 fmt::format("a memory limit of {} activations is invalid: it must not be negative",
                             limits.max_live)};
  }
  return Search(shape, costs, limits).run();
}

}  // namespace trireme
