#include "planner/search_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/units.h"
#include "compile/compile_plan.h"
#include "compile/shape_for_mesh.h"
#include "planner/layout_bound.h"
#include "planner/memory_refusal.h"
#include "predict/price_schedule.h"
#include "schema/batch.h"
#include "schema/model_spec.h"
#include "schema/run_config_validate.h"

namespace trireme {
namespace {

// A layout and the bounds of its time and of the memory of its largest rank.
struct Candidate {
  LayoutChoice layout;
  double least_s = 0.0;
  int64_t least_bytes = 0;
  int64_t index = 0;
  uint64_t again = 0;  // with memory.recompute = "fit" the cheapest values that may fit
  // If positive: stands for the layouts with any of exchanges_[mesh - 1].
  int mesh = 0;
};

// True if a comes after b: the candidate with the lowest bound is taken first.
bool comes_after(const Candidate& a, const Candidate& b) {
  return std::tie(a.least_s, a.index) > std::tie(b.least_s, b.index);
}

// Exchanges of one mesh at most, so that every layout has an index of its own.
constexpr int64_t kMostExchanges = 8;

// The simulated schedule of a layout with a set of values that are computed again. It is the same
// for every ZeRO level.
struct Simulated {
  double makespan_s = 0.0;
  std::vector<double> saved_bytes;  // [pp]
};
using SimulatedKey = std::tuple<int, int, int, int, int, ScheduleKind, int, int64_t, Recompute,
                                LayerExchange, uint64_t>;

SimulatedKey simulated_key(const LayoutChoice& layout, uint64_t again) {
  const Mesh& mesh = layout.mesh;
  return {mesh.tp,          mesh.cp,         mesh.pp,       mesh.dp,
          mesh.ep,          layout.schedule, layout.chunks, layout.micro_sequences,
          layout.recompute, layout.exchange, again};
}

Simulated summary_of(const Simulation& simulation) {
  Simulated summary{simulation.makespan_s, {}};
  for (const RankSimulation& rank : simulation.ranks)
    summary.saved_bytes.push_back(rank.peak_bytes);
  return summary;
}

// Why a layout is refused.
struct Refusal {
  std::string rule;  // a key of the configuration, "schedule" or "memory"
  std::string message;
};

NeededBytes needed_bytes(const RunPlan& plan) {
  return {plan.largest().memory.arena_bytes, plan.arena_bytes()};
}

// What a search keeps of the layouts that it has priced, and which others it no longer needs.
class Kept {
 public:
  virtual ~Kept() = default;
  // True if no layout that takes at least so long is needed.
  virtual bool is_done(double least_s) const = 0;
  // True if a layout that takes at least so long and needs at least so much is not needed.
  virtual bool is_beaten(double least_s, int64_t least_bytes) const = 0;
  virtual void keep(const PricedLayout& priced, int64_t index) = 0;
  // Sorted by time.
  virtual std::vector<PricedLayout> layouts() const = 0;
};

class Fastest : public Kept {
 public:
  explicit Fastest(size_t num_best) : num_best_(num_best) {}
  bool is_done(double least_s) const override {
    return found_.size() == num_best_ && least_s > found_.rbegin()->second.time.step;
  }
  bool is_beaten(double least_s, int64_t) const override { return is_done(least_s); }
  void keep(const PricedLayout& priced, int64_t index) override {
    found_.emplace(std::tuple(priced.time.step, priced.peak_bytes, index), priced);
    if (found_.size() > num_best_) found_.erase(std::prev(found_.end()));
  }
  std::vector<PricedLayout> layouts() const override {
    std::vector<PricedLayout> all;
    for (const auto& [key, priced] : found_) all.push_back(priced);
    return all;
  }

 private:
  size_t num_best_;
  std::map<std::tuple<double, int64_t, int64_t>, PricedLayout> found_;
};

class Front : public Kept {
 public:
  bool is_done(double least_s) const override {
    return !by_time_.empty() && least_s > kFrontSlowest * by_time_.begin()->first;
  }
  bool is_beaten(double least_s, int64_t least_bytes) const override {
    if (is_done(least_s)) return true;
    const auto slower = by_time_.upper_bound(least_s);
    if (slower == by_time_.begin()) return false;
    // Of those that are at most as slow, the last one needs the least.
    const int64_t bytes = std::prev(slower)->second.arena_bytes;
    return double(bytes) <= (1.0 + kFrontStep) * double(least_bytes);
  }
  void keep(const PricedLayout& priced, int64_t) override {
    const auto own = by_time_.insert_or_assign(priced.time.step, priced).first;
    auto next = std::next(own);
    while (next != by_time_.end() && next->second.arena_bytes >= priced.arena_bytes) {
      next = by_time_.erase(next);
    }
  }
  std::vector<PricedLayout> layouts() const override {
    std::vector<PricedLayout> all;
    for (const auto& [step_s, priced] : by_time_) {
      if (!is_done(step_s)) all.push_back(priced);
    }
    return all;
  }

 private:
  std::map<double, PricedLayout> by_time_;  // with falling memory
};

class Search {
 public:
  Search(RunConfig config, const HostFacts& host, const Hardware& hardware, RunPlan started,
         Recompute configured, const LayoutSpace& space, Kept& kept)
      : config_(std::move(config)),
        host_(host),
        hardware_(hardware),
        started_(std::move(started)),
        bounds_(started_, hardware),
        recomputes_(recomputes_of(configured)),
        collectives_(comm_cost(started_)),
        space_(space),
        num_ranks_(space.meshes.front().size()),
        kept_(kept) {
    rank_limit_ = config_.memory.limit_bytes;
    if (rank_limit_ == 0) all_limit_ = host.memory_bytes / host.ranks_on_host * num_ranks_;
    shares_machine_ = rank_limit_ == 0 && host.ranks_on_host >= num_ranks_;
    result_.global_sequences = started_.global_sequences;
  }

  Result<LayoutSearch> run() {
    for (const Mesh& mesh : space_.meshes) add_layouts(mesh);
    bounds_.take_any_of({});
    std::make_heap(candidates_.begin(), candidates_.end(), comes_after);
    while (!candidates_.empty()) {
      std::pop_heap(candidates_.begin(), candidates_.end(), comes_after);
      const Candidate candidate = candidates_.back();
      candidates_.pop_back();
      if (kept_.is_done(candidate.least_s)) break;
      if (kept_.is_beaten(candidate.least_s, candidate.least_bytes)) continue;
      if (candidate.mesh > 0) {
        add_exchanges(candidate);
      } else {
        try_candidate(candidate);
      }
    }
    result_.best = kept_.layouts();
    for (auto& [rule, refused] : refused_) result_.refused.push_back(std::move(refused));
    if (result_.best.empty()) return nothing_fits();
    return std::move(result_);
  }

 private:
  void refuse(const LayoutChoice& layout, const Refusal& refusal, int64_t count = 1) {
    const auto [found, is_new] = refused_.try_emplace(refusal.rule);
    if (is_new) found->second = {refusal.rule, 0, layout, refusal.message};
    found->second.count += count;
  }
  void refuse_schedule(const LayoutChoice& layout, const Error& error, int64_t count = 1) {
    refuse(layout, {"schedule", error.message}, count);
  }
  void refuse_memory(const LayoutChoice& layout, const NeededBytes& needed, int64_t count = 1) {
    const int64_t bytes = compared(needed);
    if (!leanest_ || bytes < leanest_bytes_) {
      leanest_ = layout;
      leanest_bytes_ = bytes;
    }
    refuse(layout,
           {"memory",
            fmt::format("needs at least {}, {} available", format_bytes(bytes), available())},
           count);
  }

  // Why no layout of the mesh can be, or nullopt if one may be. The layout that is asked has
  // micro-batches of one sequence: a rule that refuses these may take others.
  std::optional<Refusal> refusal_of(const Mesh& mesh, const LayerExchange& exchange) const {
    const RunConfig config = with_layout(config_, {.mesh = mesh, .exchange = exchange});
    for (const ConfigProblem& problem : validate_with_data(config, host_.data_vocab_size)) {
      if (problem.key == "batch.micro_sequences") continue;
      return Refusal{problem.key, problem.message()};
    }
    return std::nullopt;
  }

  // The exchanges of a mesh that no rule refuses. The first one, which shares nothing, breaks no
  // rule that others keep.
  std::vector<LayerExchange> allowed_exchanges(const Mesh& mesh, int64_t num_layouts) {
    std::vector<LayerExchange> allowed;
    const std::vector<LayerExchange> all = exchanges_of(mesh);
    result_.num_layouts += int64_t(all.size()) * num_layouts;
    for (const LayerExchange& exchange : all) {
      const auto refusal = refusal_of(mesh, exchange);
      if (!refusal) {
        allowed.push_back(exchange);
        continue;
      }
      const bool refuses_all = exchange == all.front();
      refuse({.mesh = mesh, .exchange = exchange}, *refusal,
             (refuses_all ? int64_t(all.size()) : 1) * num_layouts);
      if (refuses_all) break;
    }
    return allowed;
  }

  // Adds one candidate for all exchanges of each layout of a mesh. Only if its bound is among the
  // lowest it is replaced by one for each exchange.
  void add_layouts(const Mesh& mesh) {
    std::vector<LayoutChoice> layouts = layouts_of(mesh, started_.model, started_.global_sequences,
                                                   recomputes_, hardware_.ranks_per_node());
    std::erase_if(layouts, [&](const LayoutChoice& layout) {
      return std::count(space_.zero_levels.begin(), space_.zero_levels.end(), layout.zero) == 0;
    });
    std::vector<LayerExchange> exchanges =
        allowed_exchanges(mesh, std::max<int64_t>(1, int64_t(layouts.size())));
    if (exchanges.empty()) return;
    bounds_.take_any_of(exchanges);
    const int64_t count = int64_t(exchanges.size());
    exchanges_.push_back(std::move(exchanges));
    for (LayoutChoice& layout : layouts) {
      layout.exchange = exchanges_.back().front();
      const NeededBytes even = bounds_.even_bytes(layout);
      if (!is_available(even)) {
        refuse_memory(layout, even, count);
        continue;
      }
      add_candidate({.layout = layout,
                     .index = kMostExchanges * int64_t(candidates_.size()),
                     .mesh = int(exchanges_.size())},
                    count);
    }
  }

  // Adds a candidate with its bounds, unless they refuse all the layouts for which it stands.
  void add_candidate(Candidate candidate, int64_t num_layouts) {
    const LayoutChoice& layout = candidate.layout;
    const Result<NeededBytes> bytes = bounds_.bytes(layout);
    if (!bytes.ok()) return refuse_schedule(layout, bytes.error(), num_layouts);
    if (!is_available(*bytes)) return refuse_memory(layout, *bytes, num_layouts);
    candidate.least_bytes = bytes->of_rank;
    if (candidate.mesh == 0) candidate.again = bounds_.cheapest_again(layout, limit());
    candidate.least_s = bounds_.step_s(layout, candidate.again).value();
    candidates_.push_back(candidate);
  }

  void add_exchanges(Candidate candidate) {
    const int mesh = std::exchange(candidate.mesh, 0);
    for (const LayerExchange& exchange : exchanges_[size_t(mesh - 1)]) {
      candidate.layout.exchange = exchange;
      const size_t before = candidates_.size();
      add_candidate(candidate, 1);
      if (candidates_.size() > before) {
        std::push_heap(candidates_.begin(), candidates_.end(), comes_after);
      }
      ++candidate.index;
    }
  }

  int64_t compared(const NeededBytes& needed) const {
    return rank_limit_ > 0 ? needed.of_rank : needed.of_all;
  }
  bool is_available(const NeededBytes& needed) const {
    return (rank_limit_ == 0 || needed.of_rank <= rank_limit_) &&
           (all_limit_ == 0 || needed.of_all <= all_limit_);
  }
  NeededBytes limit() const { return {rank_limit_, all_limit_}; }
  std::string available() const { return format_bytes(std::max(rank_limit_, all_limit_)); }

  RunPlan plan_of(const LayoutChoice& layout) const {
    RunPlan plan = started_;
    plan.config = with_layout(config_, layout);
    plan.mesh = layout.mesh;
    plan.shape.micro_sequences = layout.micro_sequences;
    plan.shape.recompute = layout.recompute;
    plan.num_microbatches = plan.global_sequences / layout.mesh.dp / layout.micro_sequences;
    return plan;
  }

  // Cheap checks come first: the simulated schedule of one pipeline rules out most layouts, and the
  // time of its compiled ranks most of the others. The memory of all classes comes last.
  void try_candidate(const Candidate& candidate) {
    const LayoutChoice& layout = candidate.layout;
    const auto known = simulated_.find(simulated_key(layout, candidate.again));
    if (known != simulated_.end() && is_ruled_out(layout, known->second)) return;
    ++result_.num_simulated;
    RunPlan plan = plan_of(layout);
    const Status outlined = outline_pipeline(plan, parts_);
    if (!outlined.ok()) {
      if (!parts_.schedule(plan).ok()) return refuse_schedule(layout, outlined.error());
      // Every other rule has passed.
      return refuse(layout, {"run.reproducible", outlined.error().message});
    }
    PricedSchedule schedule = simulate(plan, layout, candidate.again);
    if (!schedule.simulation.ok()) return refuse_schedule(layout, schedule.simulation.error());
    if (is_ruled_out(layout, summary_of(*schedule.simulation))) return;
    if (layout.recompute == Recompute::Fit) {
      if (is_ruled_out_by_values(candidate, plan, schedule)) return;
      plan.shape.again = 0;
    }
    if (layout.recompute == Recompute::Fit) return try_to_fit(candidate, plan);
    StepTimes time;
    const UnitPrices prices = price_units(plan, hardware_);
    for (const RankPlan& rank : plan.pipeline) {
      compile_outlined_rank(plan, rank.coords.pp);
      const StepTimes of_rank =
          predict_stage(plan, rank, prices, schedule, hardware_, collectives_);
      if (of_rank.step > time.step) time = of_rank;
      if (kept_.is_beaten(time.step, candidate.least_bytes)) return;
    }
    if (plan_memory(layout, plan)) offer(candidate, plan, time);
  }

  // With memory.recompute = "fit", compiles the plan with the cheapest values with which it fits.
  // Programs and shards do not depend on these values, so the plan is priced before it is compiled
  // with them.
  void try_to_fit(const Candidate& candidate, RunPlan& plan) {
    const LayoutChoice& layout = candidate.layout;
    compile_outlined(plan);
    const bool recomputes = recomputes_to_fit(plan);
    if (!recomputes && !is_available(needed_bytes(plan))) {
      return refuse_memory(layout, needed_bytes(plan));
    }
    for (RankPlan& rank : plan.pipeline) rank.shape.again = plan.shape.again;
    const PricedSchedule schedule = price(plan, layout);
    if (!schedule.simulation.ok()) return refuse_schedule(layout, schedule.simulation.error());
    StepTimes time;
    for (const StepTimes& stage : predict_stages(plan, hardware_, schedule, collectives_)) {
      if (stage.step > time.step) time = stage;
    }
    if (kept_.is_beaten(time.step, candidate.least_bytes)) return;
    if (recomputes) compile_outlined(plan);
    offer(candidate, plan, time);
  }

  // Plans the memory of a compiled pipeline, and of all classes if the pipeline itself fits.
  // Returns false, and refuses the layout, if they need too much.
  bool plan_memory(const LayoutChoice& layout, RunPlan& plan) {
    plan_pipeline_memory(plan);
    NeededBytes needed;
    for (const RankPlan& rank : plan.pipeline) {
      needed.of_rank = std::max(needed.of_rank, rank.memory.arena_bytes);
      needed.of_all += rank.memory.arena_bytes;
    }
    if (is_available(needed)) {
      plan_class_memory(plan);
      needed = needed_bytes(plan);
    }
    if (is_available(needed)) return true;
    refuse_memory(layout, needed);
    return false;
  }

  PricedSchedule price(const RunPlan& plan, const LayoutChoice& layout) {
    return price_schedule(plan, hardware_, collectives_, bounds_.layer_saved_bytes(layout));
  }

  // Simulates an outlined plan. Its ranks exchange nothing again, so that the time is a bound for
  // all sets of values that cost as much as `again`.
  PricedSchedule simulate(RunPlan& plan, const LayoutChoice& layout, uint64_t again) {
    plan.shape.again = again;
    PricedSchedule schedule = price(plan, layout);
    if (schedule.simulation.ok()) {
      simulated_[simulated_key(layout, again)] = summary_of(*schedule.simulation);
    }
    return schedule;
  }

  // More micro-batches live in a simulation than in the bound, so more values may have to be
  // computed again than the candidate names.
  bool is_ruled_out_by_values(const Candidate& candidate, RunPlan& plan,
                              const PricedSchedule& schedule) {
    const Simulated simulated = summary_of(*schedule.simulation);
    const uint64_t again = bounds_.cheapest_again(candidate.layout, limit(), simulated.saved_bytes);
    if (again == candidate.again) return false;
    const PricedSchedule closer = simulate(plan, candidate.layout, again);
    return closer.simulation.ok() && is_ruled_out(candidate.layout, summary_of(*closer.simulation));
  }

  // With memory.recompute = "fit", gives a compiled plan that needs too much the cheapest values
  // with which it fits. Returns true if there are such values.
  bool recomputes_to_fit(RunPlan& plan) {
    if (plan.shape.recompute != Recompute::Fit || is_available(needed_bytes(plan))) return false;
    const auto again = bounds_.recompute_choice().cheapest(
        plan, [&](const NeededBytes& needed) { return is_available(needed); });
    plan.shape.again = again.value_or(0);
    return again.has_value();
  }

  // True if the layout needs too much memory or is slower than the layouts found so far.
  bool is_ruled_out(const LayoutChoice& layout, const Simulated& simulated) {
    if (simulated.saved_bytes.empty()) return false;  // it could not be simulated
    const NeededBytes least = bounds_.bytes(layout, simulated.saved_bytes).value();
    if (!is_available(least)) {
      refuse_memory(layout, least);
      return true;
    }
    const double after_s = bounds_.after_schedule_s(layout).value();
    return kept_.is_beaten(simulated.makespan_s * kRounding + after_s, least.of_rank);
  }

  // Keeps a layout that fits, unless it is beaten.
  void offer(const Candidate& candidate, const RunPlan& plan, const StepTimes& time) {
    PricedLayout priced;
    priced.time = time;
    priced.arena_bytes = needed_bytes(plan).of_rank;
    if (kept_.is_beaten(priced.time.step, priced.arena_bytes)) return;
    priced.layout = candidate.layout;
    priced.num_microbatches = plan.num_microbatches;
    priced.peak_bytes = plan.greatest_peak_bytes();
    priced.mfu = double(plan.tokens_per_step()) * plan.flops_per_token.total() / priced.time.step /
                 (peak_flops(plan, hardware_) * plan.num_ranks());
    kept_.keep(priced, candidate.index);
  }

  Error nothing_fits() {
    std::string message =
        fmt::format("no layout of {} rank{} is feasible:", num_ranks_, num_ranks_ == 1 ? "" : "s");
    for (const RefusedLayouts& refused : result_.refused) {
      message += fmt::format("\n  {} of {} are refused by {}, such as {}: {}", refused.count,
                             result_.num_layouts, refused.rule, describe(refused.example),
                             refused.message);
    }
    if (leanest_ && space_.names_remedy) message += "\n" + leanest_text();
    return {ErrorKind::Infeasible, message};
  }

  // Says what the plan of the smallest layout needs. The bound alone would leave out everything
  // that is not in the layers.
  std::string leanest_text() {
    RunPlan plan = plan_of(*leanest_);
    plan.shape.again = kEverythingAgain;
    std::string bytes = "at least " + format_bytes(leanest_bytes_);
    if (outline_pipeline(plan, parts_).ok()) {
      compile_outlined(plan);
      bytes = format_bytes(compared(needed_bytes(plan)));
    }
    const std::string needs =
        fmt::format("one of the smallest layouts, {}, needs {}", describe(*leanest_), bytes);
    const std::string of_all =
        shares_machine_ ? fmt::format("{}: this machine has {} for all ranks", needs, available())
                        : fmt::format("{} of {}", needs, available());
    const std::string offload = offload_that_fits(plan.config, host_);
    if (!offload.empty()) return fmt::format("{}; it fits with {}", of_all, offload);
    return (shares_machine_ ? "" : "more ranks or more memory are needed: ") + of_all;
  }

  RunConfig config_;
  const HostFacts& host_;
  const Hardware& hardware_;
  RunPlan started_;
  LayoutBounds bounds_;
  std::vector<Recompute> recomputes_;
  PlanParts parts_;
  CollectiveBytes collectives_;
  const LayoutSpace& space_;
  int num_ranks_;
  Kept& kept_;
  // At most one of the two limits is set; 0: no limit.
  int64_t rank_limit_ = 0;  // of each rank, from memory.limit_bytes
  int64_t all_limit_ = 0;   // of all ranks together, from the memory of their hosts
  bool shares_machine_ = false;
  std::optional<LayoutChoice> leanest_;  // smallest of the layouts that need too much
  int64_t leanest_bytes_ = 0;            // its lower bound
  std::vector<Candidate> candidates_;    // a heap while they are tried
  std::vector<std::vector<LayerExchange>> exchanges_;
  std::map<SimulatedKey, Simulated> simulated_;
  std::map<std::string, RefusedLayouts> refused_;
  LayoutSearch result_;
};

// The search keeps the model and batch of the configuration and ignores its layout.
Result<LayoutSearch> search(const RunConfig& config, const HostFacts& host,
                            const Hardware& hardware, const LayoutSpace& space, Kept& kept) {
  if (config.parallel.sync != GradSync::AllReduce || config.parallel.staleness > 0) {
    return Error{
        ErrorKind::Usage,
        "the layout search needs parallel.sync = \"all_reduce\" and parallel.staleness = 0"};
  }
  RunConfig alone = with_layout(config, {});
  if (const int64_t global = sequences_of_step(config); global > 0) {
    alone.batch.global_sequences = global;
    alone.batch.global_tokens = 0;
  }
  HostFacts facts = host;
  if (facts.ranks_on_host == 0) facts.ranks_on_host = space.meshes.front().size();
  TRIREME_TRY(started, start_plan(alone, facts));
  return Search(std::move(alone), facts, hardware, std::move(started), config.memory.recompute,
                space, kept)
      .run();
}

}  // namespace

LayoutSpace all_layouts(int num_ranks, const RunConfig& config) {
  return {.meshes = meshes_of(num_ranks, with_defaults(config.model, 0))};
}

Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, const LayoutSpace& space,
                                   int num_best) {
  Fastest fastest(size_t(std::max(num_best, 1)));
  return search(config, host, hardware, space, fastest);
}

Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, int num_ranks, int num_best) {
  return search_layout(config, host, hardware, all_layouts(num_ranks, config), num_best);
}

Result<LayoutSearch> search_front(const RunConfig& config, const HostFacts& host,
                                  const Hardware& hardware, int num_ranks) {
  Front front;
  return search(config, host, hardware, all_layouts(num_ranks, config), front);
}

}  // namespace trireme
