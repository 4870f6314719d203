#include "planner/search_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "base/units.h"
#include "compile/compile_plan.h"
#include "compile/unit_price_cache.h"
#include "planner/kept_layouts.h"
#include "planner/layout_bound.h"
#include "planner/memory_refusal.h"
#include "planner/search_candidate.h"
#include "predict/price_schedule.h"
#include "schema/batch.h"
#include "schema/model_spec.h"
#include "schema/run_config_validate.h"

namespace trireme {
namespace {

// Why a layout is refused.
struct Refusal {
  std::string rule;  // a key of the configuration, "schedule" or "memory"
  std::string message;
};

// A value and those of a list that differ from it.
template <typename Value>
std::vector<Value> behind(Value first, const std::vector<Value>& list) {
  std::vector<Value> all = {first};
  std::copy_if(list.begin(), list.end(), std::back_inserter(all),
               [&](Value value) { return value != first; });
  return all;
}

// The parts of an exchange that make a difference on a mesh.
LayerExchange exchange_on(const Mesh& mesh, const LayerExchange& exchange) {
  return {exchange.sequence && mesh.tp > 1, exchange.tp_overlap && mesh.tp > 1,
          mesh.cp > 1 ? exchange.context : ContextExchange::Ring};
}

// The numbers of the layouts of a mesh, so that those which differ only in ZeRO and its shards
// follow each other: they share most of their bounds. In the list itself they are far apart.
std::vector<size_t> by_schedule(const std::vector<LayoutChoice>& layouts) {
  const auto is_other_zero = [&](const LayoutChoice& layout) {
    return layout.zero != layouts.front().zero || layout.hsdp_shard != layouts.front().hsdp_shard;
  };
  const auto other = std::find_if(layouts.begin(), layouts.end(), is_other_zero);
  const auto schedules = size_t(other - layouts.begin());
  std::vector<size_t> numbers;
  for (size_t schedule = 0; schedule < schedules; ++schedule) {
    for (size_t i = schedule; i < layouts.size(); i += schedules) numbers.push_back(i);
  }
  return numbers;
}

NeededBytes needed_bytes(const RunPlan& plan) {
  return {plan.tightest().needed_bytes(), plan.arena_bytes()};
}

StepTimes slowest_of(const std::vector<StepTimes>& stages) {
  StepTimes slowest;
  for (const StepTimes& stage : stages) {
    if (stage.step > slowest.step) slowest = stage;
  }
  return slowest;
}

class Search {
 public:
  Search(RunConfig config, const HostFacts& host, const Hardware& hardware, RunPlan started,
         Recompute configured_recompute, const LayoutSpace& space, KeptLayouts& kept)
      : config_(std::move(config)),
        host_(host),
        hardware_(hardware),
        started_(std::move(started)),
        bounds_(started_, hardware),
        recomputes_(recomputes_of(configured_recompute)),
        collectives_(comm_cost(started_)),
        prices_(hardware),
        space_(space),
        num_ranks_(space.meshes.front().size()),
        kept_(kept) {
    rank_limit_ = config_.memory.limit_bytes;
    if (rank_limit_ == 0) all_limit_ = host.memory_bytes / host.ranks_on_host * num_ranks_;
    shares_machine_ = rank_limit_ == 0 && host.ranks_on_host >= num_ranks_;
    result_.global_sequences = started_.global_sequences;
    const LayoutTransfers configured = transfers_of(config_);
    offloads_ = allowed_offloads(configured);
    bucket_bytes_ = behind(configured.bucket_bytes, space.bucket_bytes);
    prefetches_ = behind(configured.prefetch, space.prefetches);
    bounds_.take_buckets_up_to(*std::max_element(bucket_bytes_.begin(), bucket_bytes_.end()));
    tries_all_offloads_ = kept.wants_smaller_ways() || configured_recompute == Recompute::Fit;
  }

  Result<LayoutSearch> run() {
    for (const Mesh& mesh : space_.meshes) add_layouts(mesh);
    std::make_heap(candidates_.begin(), candidates_.end(), comes_after);
    while (!candidates_.empty()) {
      std::pop_heap(candidates_.begin(), candidates_.end(), comes_after);
      const Candidate candidate = candidates_.back();
      candidates_.pop_back();
      if (kept_.is_done(candidate.least_s)) break;
      if (kept_.is_beaten(candidate.least_s, candidate.least_bytes)) continue;
      if (candidate.is_even) {
        push_closer(candidate);
      } else if (candidate.has_any_exchange) {
        add_choices(candidate);
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
  bool is_smallest_way(const Candidate& candidate) const {
    return size_t(candidate.offload) + 1 == offloads_.size();
  }
  // A layout is counted once, however many of its ways are refused.
  void refuse(const Candidate& candidate, const Refusal& refusal, int64_t count = 1) {
    const bool is_last = !tries_all_offloads_ || is_smallest_way(candidate);
    if (is_last) refuse(candidate.layout, refusal, count);
  }
  void refuse_schedule(const Candidate& candidate, const Error& error, int64_t count = 1) {
    refuse(candidate, {"schedule", error.message}, count);
  }
  // Tries what takes more out of the memory. The layout itself is refused if nothing does.
  void refuse_memory(const Candidate& candidate, const NeededBytes& needed, int64_t count = 1) {
    if (is_smallest_way(candidate)) {
      if (count > 0) refuse_memory(candidate.layout, needed, count);
    } else if (!tries_all_offloads_) {
      push_candidate(candidate, candidate.offload + 1);
    }
  }
  void refuse_memory(const LayoutChoice& layout, const NeededBytes& needed, int64_t count) {
    const int64_t bytes = compared(needed);
    if (!leanest_ || bytes < leanest_bytes_) {
      leanest_ = layout;
      leanest_bytes_ = bytes;
    }
    // Most layouts of a large search are refused here, so a message is made for the first one only.
    if (const auto known = refused_.find("memory"); known != refused_.end()) {
      known->second.count += count;
      return;
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
    const std::vector<LayerExchange> all =
        space_.exchange ? std::vector{exchange_on(mesh, *space_.exchange)} : exchanges_of(mesh);
    result_.num_layouts += int64_t(all.size()) * num_layouts;
    for (const LayerExchange& exchange : all) {
      const auto refusal = refusal_of(mesh, exchange);
      if (!refusal) {
        allowed.push_back(exchange);
        continue;
      }
      const bool refuses_all = exchange == all.front();
      refuse(LayoutChoice{.mesh = mesh, .exchange = exchange}, *refusal,
             (refuses_all ? int64_t(all.size()) : 1) * num_layouts);
      if (refuses_all) break;
    }
    return allowed;
  }

  // Adds one candidate for all exchanges and orders of each layout of a mesh. Only if its bound is
  // among the lowest it is replaced by one for each of them.
  void add_layouts(const Mesh& mesh) {
    const int ranks_per_node = hardware_.ranks_per_node();
    std::vector<MeshOrder> orders = orders_of(mesh, space_.orders, ranks_per_node);
    std::vector<LayoutChoice> layouts = layouts_of(
        mesh, orders, started_.model, started_.global_sequences, recomputes_, ranks_per_node);
    std::erase_if(layouts, [&](const LayoutChoice& layout) {
      const bool is_other_micro =
          space_.micro_sequences && layout.micro_sequences != *space_.micro_sequences;
      return is_other_micro ||
             std::count(space_.zero_levels.begin(), space_.zero_levels.end(), layout.zero) == 0;
    });
    std::vector<LayerExchange> exchanges =
        allowed_exchanges(mesh, std::max<int64_t>(1, int64_t(layouts.size())));
    if (exchanges.empty()) return;
    bounds_.take_any_of(exchanges, orders);
    const int64_t count = int64_t(exchanges.size());
    any_of_.push_back({std::move(exchanges), std::move(orders)});
    const int smallest = int(offloads_.size()) - 1;
    const int64_t first_index = num_candidates_;
    num_candidates_ += int64_t(layouts.size());
    for (const size_t number : by_schedule(layouts)) {
      LayoutChoice& layout = layouts[number];
      layout.mesh.order = any_of_.back().orders.front();
      layout.exchange = any_of_.back().exchanges.front();
      layout.transfers = transfers_with(smallest);
      const NeededBytes even = bounds_.even_bytes(layout);
      if (!is_available(even)) {
        refuse_memory(layout, even, count);
        continue;
      }
      Candidate candidate{.layout = layout,
                          .index = kMostExchanges * (first_index + int64_t(number)),
                          .mesh = int(any_of_.size()) - 1,
                          .offload = smallest,
                          .has_any_exchange = true};
      if (set_bounds(candidate, count)) candidates_.push_back(candidate);
    }
  }

  LayoutTransfers transfers_with(int offload) const {
    return {offloads_[size_t(offload)], bucket_bytes_.front(), prefetches_.front()};
  }

  // Sets the bounds of a candidate. Returns false if they refuse all the layouts for which it
  // stands.
  bool set_bounds(Candidate& candidate, int64_t num_layouts) {
    const LayoutChoice& layout = candidate.layout;
    const Result<NeededBytes> bytes = bounds_.bytes(layout);
    if (!bytes.ok()) {
      refuse_schedule(candidate, bytes.error(), num_layouts);
      return false;
    }
    if (!is_available(*bytes)) {
      refuse_memory(candidate, *bytes, num_layouts);
      return false;
    }
    candidate.least_bytes = bytes->of_rank;
    if (!candidate.has_any_exchange) candidate.again = bounds_.cheapest_again(layout, limit());
    candidate.is_even = candidate.has_any_exchange;
    candidate.least_s = candidate.is_even ? bounds_.even_step_s(layout)
                                          : bounds_.step_s(layout, candidate.again).value();
    return true;
  }

  // Gives a candidate for all exchanges its closer bound of time. Most candidates never need it.
  void push_closer(Candidate candidate) {
    const AnyOfMesh& any_of = any_of_[size_t(candidate.mesh)];
    bounds_.take_any_of(any_of.exchanges, any_of.orders);
    candidate.is_even = false;
    candidate.least_s = least_s_with_any_offload(candidate.layout);
    bounds_.take_any_of({}, any_of.orders);
    candidates_.push_back(candidate);
    std::push_heap(candidates_.begin(), candidates_.end(), comes_after);
  }

  // A larger choice of memory.offload is never faster, so the bound is that of the smallest choice
  // with which the layout may fit.
  double least_s_with_any_offload(LayoutChoice layout) {
    int offload = 0;
    layout.transfers = transfers_with(offload);
    while (offload + 1 < int(offloads_.size()) && !is_available(bounds_.bytes(layout).value())) {
      layout.transfers = transfers_with(++offload);
    }
    return bounds_.step_s(layout).value();
  }

  void push_candidate(Candidate candidate, int offload) {
    candidate.offload = offload;
    candidate.layout.transfers = transfers_with(offload);
    bounds_.take_any_of({}, any_of_[size_t(candidate.mesh)].orders);
    if (!set_bounds(candidate, 1)) return;
    candidates_.push_back(candidate);
    std::push_heap(candidates_.begin(), candidates_.end(), comes_after);
  }

  // Offloading takes time, so the next choice of it is tried only where the last one does not fit,
  // unless what it saves is wanted, too.
  void add_choices(Candidate candidate) {
    candidate.has_any_exchange = false;
    const int num_offloads = tries_all_offloads_ ? int(offloads_.size()) : 1;
    for (const LayerExchange& exchange : any_of_[size_t(candidate.mesh)].exchanges) {
      candidate.layout.exchange = exchange;
      for (int offload = 0; offload < num_offloads; ++offload) push_candidate(candidate, offload);
      ++candidate.index;
    }
  }

  // The choices of memory.offload that no rule refuses.
  std::vector<OffloadChoice> allowed_offloads(const LayoutTransfers& configured) const {
    std::vector<OffloadChoice> allowed;
    for (const OffloadChoice offload : space_.offloads) {
      LayoutTransfers transfers = configured;
      transfers.offload = offload;
      const RunConfig config = with_layout(config_, {.transfers = transfers});
      if (validate_with_data(config, host_.data_vocab_size).empty()) allowed.push_back(offload);
    }
    return allowed.empty() ? std::vector<OffloadChoice>{configured.offload} : allowed;
  }

  // The buckets and numbers of prefetched units that differ for a layout, the configured ones
  // first.
  std::vector<LayoutTransfers> transfers_of_layout(const LayoutChoice& layout) {
    const LayoutTransfers configured = *layout.transfers;
    if (layout.mesh.dp == 1) return {configured};
    std::vector<LayoutTransfers> all;
    bool has_lone_layers = false;  // a choice in which every bucket has a single layer
    for (const int64_t bucket_bytes : bucket_bytes_) {
      const bool joins_layers = bounds_.joins_layers(layout.mesh, bucket_bytes);
      if (!joins_layers && std::exchange(has_lone_layers, true)) continue;
      for (const int prefetch : prefetches_) {
        if (layout.zero < 2 && prefetch != configured.prefetch) continue;
        all.push_back({configured.offload, bucket_bytes, prefetch});
      }
    }
    return all;
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
    RunPlan plan;
    std::vector<OrderedSchedule> schedules;
    const std::vector<MeshOrder>& orders = any_of_[size_t(candidate.mesh)].orders;
    for (size_t number = 0; number < orders.size(); ++number) {
      LayoutChoice layout = candidate.layout;
      layout.mesh.order = orders[number];
      if (orders.size() > 1 && is_slow_order(candidate, layout)) continue;
      const auto known = simulated_.find(simulated_key(layout, candidate.again));
      if (known != simulated_.end() && !fits(candidate, known->second)) return;
      if (known != simulated_.end() && is_beaten(layout, known->second)) continue;
      ++result_.num_simulated;
      if (plan.pipeline.empty() && !outline(candidate, plan)) return;
      set_order(plan, orders[number]);
      PricedSchedule schedule = simulate(plan, layout, candidate.again);
      if (!schedule.simulation.ok()) return refuse_schedule(candidate, schedule.simulation.error());
      const Simulated simulated = summary_of(*schedule.simulation);
      if (!fits(candidate, simulated)) return;
      if (is_beaten(layout, simulated)) continue;
      const bool is_fit = layout.recompute == Recompute::Fit;
      if (is_fit && is_beaten_by_values(candidate, layout, plan, simulated)) continue;
      schedules.push_back({orders[number], int(number), std::move(schedule)});
    }
    if (!schedules.empty()) try_transfers(candidate, plan, schedules);
  }

  // True if the bound of a layout in its order is above what is kept.
  bool is_slow_order(const Candidate& candidate, const LayoutChoice& layout) {
    bounds_.take_any_of({}, {layout.mesh.order});
    const double least_s = bounds_.step_s(layout, candidate.again).value();
    return kept_.is_beaten(least_s, candidate.least_bytes);
  }

  // Outlines the plan of a layout, or refuses the layout and returns false.
  bool outline(const Candidate& candidate, RunPlan& plan) {
    plan = plan_of(candidate.layout);
    const Status outlined = outline_pipeline(plan, parts_);
    if (outlined.ok()) return true;
    if (!parts_.schedule(plan).ok()) {
      refuse_schedule(candidate, outlined.error());
    } else {
      // Every other rule has passed.
      refuse(candidate, {"run.reproducible", outlined.error().message});
    }
    return false;
  }

  // A compiled plan does not depend on the order, except for the positions of its ranks.
  static void set_order(RunPlan& plan, const MeshOrder& order) {
    plan.mesh.order = order;
    plan.config.parallel.order = to_string(order);
    for (RankPlan& rank : plan.pipeline) rank.position = position_of(plan.mesh, rank.coords);
  }

  // The simulated schedule is the same for all buckets. If one of them needs too much memory, the
  // next choice of memory.offload may have room for it.
  void try_transfers(Candidate candidate, RunPlan& plan,
                     const std::vector<OrderedSchedule>& schedules) {
    std::optional<NeededBytes> too_much;
    bool is_possible = false;
    LayoutWay way{.offload = candidate.offload};
    for (const LayoutTransfers& transfers : transfers_of_layout(candidate.layout)) {
      candidate.layout.transfers = transfers;
      plan.config.parallel.bucket_bytes = transfers.bucket_bytes;
      plan.config.parallel.prefetch = transfers.prefetch;
      const bool is_fit = candidate.layout.recompute == Recompute::Fit;
      const std::optional<NeededBytes> needed = is_fit
                                                    ? try_to_fit(candidate, way, plan, schedules)
                                                    : try_as_it_is(candidate, way, plan, schedules);
      if (needed && !too_much) too_much = needed;
      is_possible = is_possible || !needed;
      ++way.transfers;
    }
    if (too_much) refuse_memory(candidate, *too_much, is_possible ? 0 : 1);
  }

  // Both functions offer what fits and is not beaten, and return what is needed if it is too much.
  // The memory of a plan is the same in every order.
  std::optional<NeededBytes> try_as_it_is(Candidate& candidate, LayoutWay way, RunPlan& plan,
                                          const std::vector<OrderedSchedule>& schedules) {
    const UnitPrices& prices = prices_.slowest_of(plan);
    std::optional<NeededBytes> needed;
    int num_compiled = 0;
    for (const OrderedSchedule& ordered : schedules) {
      set_order(plan, ordered.order);
      StepTimes time;
      int pp = 0;
      while (pp < plan.mesh.pp && !kept_.is_beaten(time.step, candidate.least_bytes)) {
        if (pp == num_compiled) compile_outlined_rank(plan, num_compiled++, parts_);
        const StepTimes of_rank = predict_stage(plan, plan.pipeline[size_t(pp++)], prices,
                                                ordered.schedule, hardware_, collectives_);
        if (of_rank.step > time.step) time = of_rank;
      }
      if (kept_.is_beaten(time.step, candidate.least_bytes)) continue;
      if (hardware_.is_mixed()) time = slowest_of(predict_stages(plan, hardware_));
      if (!needed) needed = planned_bytes(plan);
      if (!is_available(*needed)) return needed;
      way.order = ordered.number;
      offer(candidate, way, plan, time);
    }
    return std::nullopt;
  }

  // With memory.recompute = "fit", compiles the plan with the cheapest values with which it fits.
  // Programs and shards do not depend on these values, so the plan is priced before it is compiled
  // with them.
  std::optional<NeededBytes> try_to_fit(Candidate& candidate, LayoutWay way, RunPlan& plan,
                                        const std::vector<OrderedSchedule>& schedules) {
    plan.shape.again = 0;
    compile_outlined(plan, parts_);
    const bool recomputes = recomputes_to_fit(plan);
    if (!recomputes && !is_available(needed_bytes(plan))) return needed_bytes(plan);
    for (RankPlan& rank : plan.pipeline) rank.shape.again = plan.shape.again;
    bool is_compiled = !recomputes;
    for (const OrderedSchedule& ordered : schedules) {
      set_order(plan, ordered.order);
      candidate.layout.mesh.order = ordered.order;
      const PricedSchedule schedule = price(plan, candidate.layout);
      // The schedule was simulated with other values before.
      TRIREME_CHECK(schedule.simulation.ok(), schedule.simulation.error().message);
      const StepTimes time =
          slowest_of(hardware_.is_mixed() ? predict_stages(plan, hardware_)
                                          : predict_stages(plan, prices_.of(plan), schedule,
                                                           hardware_, collectives_));
      if (kept_.is_beaten(time.step, candidate.least_bytes)) continue;
      if (!std::exchange(is_compiled, true)) compile_outlined(plan, parts_);
      way.order = ordered.number;
      offer(candidate, way, plan, time);
    }
    return std::nullopt;
  }

  // Plans the memory of a compiled pipeline, and of all classes if the pipeline itself fits.
  NeededBytes planned_bytes(RunPlan& plan) const {
    plan_pipeline_memory(plan);
    NeededBytes needed;
    for (const RankPlan& rank : plan.pipeline) {
      needed.of_rank = std::max(needed.of_rank, rank.memory.arena_bytes);
      needed.of_all += rank.memory.arena_bytes;
    }
    if (!is_available(needed)) return needed;
    plan_class_memory(plan);
    return needed_bytes(plan);
  }

  PricedSchedule price(const RunPlan& plan, const LayoutChoice& layout) {
    return price_schedule(plan, prices_.of(plan), hardware_, collectives_,
                          bounds_.layer_saved_bytes(layout));
  }

  // Simulates an outlined plan. Its ranks exchange nothing again, so that the time is a bound for
  // all sets of values that cost as much as `again`.
  PricedSchedule simulate(RunPlan& plan, const LayoutChoice& layout, uint64_t again) {
    plan.shape.again = again;
    const SimulatedKey key = simulated_key(layout, again);
    if (const auto known = schedules_.find(key); known != schedules_.end()) return known->second;
    PricedSchedule schedule = price(plan, layout);
    if (!schedule.simulation.ok()) return schedule;
    simulated_[key] = summary_of(*schedule.simulation);
    schedule.simulation->timeline = {};
    schedule.costs = {};
    if (schedules_.size() == kMostSchedules) schedules_.clear();
    return schedules_.emplace(key, std::move(schedule)).first->second;
  }

  // More micro-batches live in a simulation than in the bound, so more values may have to be
  // computed again than the candidate names.
  bool is_beaten_by_values(const Candidate& candidate, const LayoutChoice& layout, RunPlan& plan,
                           const Simulated& simulated) {
    const uint64_t again = bounds_.cheapest_again(layout, limit(), simulated.saved_bytes);
    if (again == candidate.again) return false;
    const PricedSchedule closer = simulate(plan, layout, again);
    return closer.simulation.ok() && is_beaten(layout, summary_of(*closer.simulation));
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

  // False, and the candidate is refused, if its simulated schedule needs too much memory. That
  // does not depend on the order.
  bool fits(const Candidate& candidate, const Simulated& simulated) {
    const NeededBytes least = bounds_.bytes(candidate.layout, simulated.saved_bytes).value();
    if (is_available(least)) return true;
    refuse_memory(candidate, least);
    return false;
  }
  // True if the layout is slower, in its order, than what is kept.
  bool is_beaten(const LayoutChoice& layout, const Simulated& simulated) {
    const NeededBytes least = bounds_.bytes(layout, simulated.saved_bytes).value();
    const double after_s = bounds_.after_schedule_s(layout).value();
    return kept_.is_beaten(simulated.makespan_s * kRounding + after_s, least.of_rank);
  }

  // Keeps a layout that fits, unless it is beaten.
  void offer(const Candidate& candidate, const LayoutWay& way, const RunPlan& plan,
             const StepTimes& time) {
    PricedLayout priced;
    priced.time = time;
    priced.arena_bytes = plan.largest().memory.arena_bytes;
    if (kept_.is_beaten(priced.time.step, priced.arena_bytes)) return;
    priced.layout = candidate.layout;
    priced.layout.mesh.order = plan.mesh.order;
    priced.num_microbatches = plan.num_microbatches;
    priced.peak_bytes = plan.greatest_peak_bytes();
    priced.mfu = double(plan.tokens_per_step()) * plan.flops_per_token.total() / priced.time.step /
                 (peak_flops(plan, hardware_) * plan.num_ranks());
    kept_.keep(priced, candidate.index, way);
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
      compile_outlined(plan, parts_);
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
  UnitPriceCache prices_;
  const LayoutSpace& space_;
  int num_ranks_;
  KeptLayouts& kept_;
  // At most one of the two limits is set; 0: no limit.
  int64_t rank_limit_ = 0;  // of each rank, from memory.limit_bytes
  int64_t all_limit_ = 0;   // of all ranks together, from the memory of their hosts
  bool shares_machine_ = false;
  std::optional<LayoutChoice> leanest_;  // smallest of the layouts that need too much
  int64_t leanest_bytes_ = 0;            // its lower bound
  std::vector<Candidate> candidates_;    // a heap while they are tried
  int64_t num_candidates_ = 0;           // all that were considered, in the order of their indices
  std::vector<AnyOfMesh> any_of_;
  std::vector<OffloadChoice> offloads_;  // rising
  std::vector<int64_t> bucket_bytes_;    // the configured one first
  std::vector<int> prefetches_;          // the configured one first
  bool tries_all_offloads_ = false;
  std::map<SimulatedKey, Simulated> simulated_;
  // Without their timelines and costs, which are large. Layouts that differ in ZeRO alone often
  // follow each other.
  static constexpr size_t kMostSchedules = 2048;
  std::map<SimulatedKey, PricedSchedule> schedules_;
  std::map<std::string, RefusedLayouts> refused_;
  LayoutSearch result_;
};

// The search keeps the model and batch of the configuration and ignores its layout.
Result<LayoutSearch> search(const RunConfig& config, const HostFacts& host,
                            const Hardware& hardware, const LayoutSpace& space, KeptLayouts& kept) {
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

Result<LayoutSearch> search_layout(const RunConfig& config, const HostFacts& host,
                                   const Hardware& hardware, const LayoutSpace& space,
                                   int num_best) {
  FastestLayouts fastest(size_t(std::max(num_best, 1)));
  return search(config, host, hardware, space, fastest);
}

Result<LayoutSearch> search_front(const RunConfig& config, const HostFacts& host,
                                  const Hardware& hardware, const LayoutSpace& space) {
  LayoutFront front;
  return search(config, host, hardware, space, front);
}

}  // namespace trireme
