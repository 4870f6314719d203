#include "planner/search_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/units.h"
#include "planner/compile_plan.h"
#include "planner/layout_bound.h"
#include "planner/price_schedule.h"
#include "spec/run_config_validate.h"

namespace trireme {
namespace {

struct Candidate {
  LayoutChoice layout;
  double least_s = 0.0;
  int64_t index = 0;
};

// What a simulated schedule says of a layout, whatever its ZeRO level.
struct Simulated {
  double makespan_s = 0.0;
  std::vector<double> saved_bytes;  // [pp]
};
using SimulatedKey = std::tuple<int, int, int, int, int, std::string, int, int64_t, Recompute>;

SimulatedKey simulated_key(const LayoutChoice& layout) {
  const Mesh& mesh = layout.mesh;
  return {mesh.tp,         mesh.cp,         mesh.pp,       mesh.dp,
          mesh.ep,         layout.schedule, layout.chunks, layout.micro_sequences,
          layout.recompute};
}

Simulated summary_of(const Simulation& simulation) {
  Simulated summary{simulation.makespan_s, {}};
  for (const RankSimulation& rank : simulation.ranks)
    summary.saved_bytes.push_back(rank.peak_bytes);
  return summary;
}

// What the ranks need of one limit: each, or all together.
int64_t needed_bytes(const RunPlan& plan) {
  std::vector<int64_t> most_of_stage(size_t(plan.mesh.pp), 0);
  for (const RankPlan& rank : plan.ranks) {
    int64_t& most = most_of_stage[size_t(rank.coords.pp)];
    most = std::max(most, rank.memory.arena_bytes);
  }
  if (plan.config.memory.limit_bytes > 0) {
    return *std::max_element(most_of_stage.begin(), most_of_stage.end());
  }
  const int64_t sum = std::accumulate(most_of_stage.begin(), most_of_stage.end(), int64_t{0});
  return sum * (plan.mesh.size() / plan.mesh.pp);
}

// Ranks that are not looked at need at most this part more: shards differ by blocks.
constexpr int64_t kNearLimit = 64;

// Sums here and in a price are rounded in different order.
constexpr double kRounding = 1.0 - 1e-9;

class Search {
 public:
  Search(RunConfig config, const HostFacts& host, const Hardware& hardware, RunPlan started,
         int num_ranks, size_t num_best)
      : config_(std::move(config)),
        host_(host),
        hardware_(hardware),
        started_(std::move(started)),
        bounds_(started_, hardware),
        num_ranks_(num_ranks),
        num_best_(num_best) {
    limit_ = config_.memory.limit_bytes;
    if (limit_ == 0 && host.memory_bytes > 0) {
      const int on_host = host.ranks_on_host > 0 ? host.ranks_on_host : num_ranks;
      limit_ = host.memory_bytes / on_host * num_ranks;
    }
    result_.global_sequences = started_.global_sequences;
  }

  Result<LayoutSearch> run() {
    for (const Mesh& mesh : meshes_of(num_ranks_, started_.model)) add_layouts(mesh);
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.least_s < b.least_s; });
    for (const Candidate& candidate : candidates_) {
      if (is_slower(candidate.least_s)) break;
      try_candidate(candidate);
    }
    for (auto& [key, priced] : found_) result_.best.push_back(std::move(priced));
    for (auto& [rule, refused] : refused_) result_.refused.push_back(std::move(refused));
    if (result_.best.empty()) return nothing_fits();
    return std::move(result_);
  }

 private:
  RefusedLayouts& refused_by(const std::string& rule, const LayoutChoice& layout) {
    const auto [found, is_new] = refused_.try_emplace(rule);
    if (is_new) found->second = {rule, 0, layout, ""};
    return found->second;
  }
  // By the key that the message begins with.
  void refuse(const LayoutChoice& layout, const Error& error, int64_t count = 1) {
    const bool names_key = error.message.find('.') < error.message.find(' ');
    RefusedLayouts& refused = refused_by(
        names_key ? error.message.substr(0, error.message.find(' ')) : "schedule", layout);
    if (refused.count == 0) refused.message = error.message;
    refused.count += count;
  }
  void refuse_memory(const LayoutChoice& layout, int64_t bytes) {
    least_bytes_ = least_bytes_ == 0 ? bytes : std::min(least_bytes_, bytes);
    RefusedLayouts& refused = refused_by("memory", layout);
    if (refused.count++ > 0) return;
    refused.message =
        fmt::format("needs at least {}, {} available", format_bytes(bytes), format_bytes(limit_));
  }

  Status check_mesh(const Mesh& mesh) const {
    const RunConfig config = with_layout(config_, {.mesh = mesh});
    const std::vector<ConfigProblem> problems = validate(config);
    if (!problems.empty()) return Error{ErrorKind::Usage, problems.front().message()};
    TRIREME_TRY(plan, start_plan(config, host_));
    return shape_for_mesh(plan);
  }

  void add_layouts(const Mesh& mesh) {
    const std::vector<LayoutChoice> layouts =
        layouts_of(mesh, started_.model, started_.global_sequences);
    const int64_t count = std::max<int64_t>(1, int64_t(layouts.size()));
    result_.num_layouts += count;
    const Status fits = check_mesh(mesh);
    if (!fits.ok()) return refuse({.mesh = mesh}, fits.error(), count);
    for (const LayoutChoice& layout : layouts) {
      const int64_t even_bytes = bounds_.even_rank_bytes(layout);
      if (!is_available(even_bytes)) {
        refuse_memory(layout, even_bytes);
        continue;
      }
      const Result<int64_t> bytes = bounds_.rank_bytes(layout);
      if (!bytes.ok()) {
        refuse(layout, bytes.error());
      } else if (!is_available(*bytes)) {
        refuse_memory(layout, *bytes);
      } else {
        const double least_s = bounds_.step_s(layout).value();
        candidates_.push_back({layout, least_s, int64_t(candidates_.size())});
      }
    }
  }

  bool is_available(int64_t bytes) const { return limit_ <= 0 || bytes <= limit_; }
  bool is_slower(double step_s) const {
    return found_.size() == num_best_ && step_s > found_.rbegin()->second.time.step;
  }

  RunPlan plan_of(const LayoutChoice& layout) const {
    RunPlan plan = started_;
    plan.config = with_layout(config_, layout);
    plan.mesh = layout.mesh;
    plan.shape.micro_sequences = layout.micro_sequences;
    plan.shape.recompute = layout.recompute;
    plan.num_microbatches = plan.global_sequences / layout.mesh.dp / layout.micro_sequences;
    return plan;
  }

  // The dear parts come last: the schedule of one pipeline says enough of most layouts.
  void try_candidate(const Candidate& candidate) {
    const LayoutChoice& layout = candidate.layout;
    const auto [simulated, is_new] = simulated_.try_emplace(simulated_key(layout));
    if (!is_new && is_ruled_out(layout, simulated->second)) return;
    ++result_.num_simulated;
    RunPlan plan = plan_of(layout);
    const Status outlined = outline_pipeline(plan, parts_);
    if (!outlined.ok()) return refuse(layout, outlined.error());
    const PricedSchedule schedule =
        price_schedule(plan, hardware_, collectives_, bounds_.layer_saved_bytes(layout));
    if (!schedule.simulation.ok()) return refuse(layout, schedule.simulation.error());
    simulated->second = summary_of(*schedule.simulation);
    if (is_ruled_out(layout, simulated->second)) return;
    compile_outlined(plan, parts_);
    offer(candidate, std::move(plan), schedule);
  }

  // Needs too much, or is slower than what has been found.
  bool is_ruled_out(const LayoutChoice& layout, const Simulated& simulated) {
    if (simulated.saved_bytes.empty()) return false;  // it could not be simulated
    const int64_t least_bytes = bounds_.rank_bytes(layout, simulated.saved_bytes).value();
    if (!is_available(least_bytes)) {
      refuse_memory(layout, least_bytes);
      return true;
    }
    const double after_s = bounds_.after_schedule_s(layout).value();
    return is_slower(simulated.makespan_s * kRounding + after_s);
  }

  void offer(const Candidate& candidate, RunPlan plan, const PricedSchedule& schedule) {
    const LayoutChoice& layout = candidate.layout;
    const int64_t needed = needed_bytes(plan);
    if (!is_available(needed)) return refuse_memory(layout, needed);
    PricedLayout priced;
    for (const StepTimes& stage : predict_stages(plan, hardware_, schedule, collectives_)) {
      if (stage.step > priced.time.step) priced.time = stage;
    }
    if (is_slower(priced.time.step)) return;
    const bool is_near = limit_ > 0 && needed > limit_ - limit_ / kNearLimit;
    if (is_near) {  // every rank counts
      const Status compiled = compile_plan(plan);
      if (!compiled.ok()) return refuse(layout, compiled.error());
      const int64_t of_all = needed_bytes(plan);
      if (!is_available(of_all)) return refuse_memory(layout, of_all);
    }
    priced.layout = layout;
    priced.num_microbatches = plan.num_microbatches;
    for (const RankPlan& rank : plan.ranks) {
      priced.peak_bytes = std::max(priced.peak_bytes, rank.memory.peak_bytes);
    }
    priced.mfu = double(plan.tokens_per_step()) * plan.flops_per_token.total() / priced.time.step /
                 (peak_flops(plan, hardware_) * plan.num_ranks());
    found_.emplace(std::tuple(priced.time.step, priced.peak_bytes, candidate.index), priced);
    if (found_.size() > num_best_) found_.erase(std::prev(found_.end()));
  }

  Error nothing_fits() const {
    std::string message =
        fmt::format("no layout of {} rank{} can be:", num_ranks_, num_ranks_ == 1 ? "" : "s");
    for (const RefusedLayouts& refused : result_.refused) {
      message +=
          fmt::format("\n  {} of {} by {}, such as {}: {}", refused.count, result_.num_layouts,
                      refused.rule, describe(refused.example), refused.message);
    }
    if (least_bytes_ > 0) {
      message += fmt::format("\nmore ranks or memory are needed: the least is {} of {}",
                             format_bytes(least_bytes_), format_bytes(limit_));
    }
    return {ErrorKind::Infeasible, message};
  }

  RunConfig config_;
  const HostFacts& host_;
  const Hardware& hardware_;
  RunPlan started_;
  LayoutBounds bounds_;
  PlanParts parts_;
  CollectiveBytes collectives_;
  int num_ranks_;
  size_t num_best_;
  int64_t limit_ = 0;  // of each rank where the configuration limits ranks, else of all; 0: none
  int64_t least_bytes_ = 0;
  std::vector<Candidate> candidates_;
  std::map<SimulatedKey, Simulated> simulated_;
  std::map<std::tuple<double, int64_t, int64_t>, PricedLayout> found_;
  std::map<std::string, RefusedLayouts> refused_;
  LayoutSearch result_;
};

}  // namespace

Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, int num_ranks, int num_best) {
  if (config.parallel.sync != "all_reduce" || config.parallel.staleness > 0) {
    return Error{
        ErrorKind::Usage,
        "a layout is searched for parallel.sync = \"all_reduce\" and parallel.staleness = 0"};
  }
  // Model and batch are those of the configuration; its layout does not matter.
  TRIREME_TRY(global, global_sequences_of(config));
  RunConfig alone = with_layout(config, {});
  alone.batch.global_sequences = global;
  alone.batch.global_tokens = 0;
  HostFacts facts = host;
  if (facts.ranks_on_host == 0) facts.ranks_on_host = num_ranks;
  TRIREME_TRY(started, start_plan(alone, facts));
  return Search(std::move(alone), facts, hardware, std::move(started), num_ranks,
                size_t(std::max(num_best, 1)))
      .run();
}

}  // namespace trireme
