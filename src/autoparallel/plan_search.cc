#include "autoparallel/plan_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "autoparallel/cluster_stages.h"
#include "autoparallel/cluster_units.h"
#include "autoparallel/refuse_plan.h"
#include "autoparallel/split_plan.h"
#include "autoparallel/stage_degrees.h"
#include "autoparallel/uniform_plans.h"
#include "base/check.h"
#include "compile/link_cost.h"
#include "compile/unit_price.h"
#include "graph/model_graphs.h"
#include "graph/work.h"
#include "program/make_schedule.h"
#include "schema/image_net.h"
#include "sim/simulate.h"

namespace trireme {
namespace {

// Returns the position of the first rank of every stage. The ranks of a stage are neighbours.
std::vector<int64_t> first_positions(const FoundPlan& plan) {
  std::vector<int64_t> firsts;
  int64_t position = 0;
  for (const StagePlan& stage : plan.stages) {
    firsts.push_back(position);
    position += stage.num_ranks;
  }
  return firsts;
}

// Returns the link between two stages, which may have different numbers of ranks. Every byte
// crosses once, over the links of all ranks of the smaller stage. Then the ranks of the receiver
// gather what else they need.
Link link_between(const PlannedRun& run, const FoundPlan& plan, double bytes, int from, int to) {
  const std::vector<int64_t> firsts = first_positions(plan);
  const StagePlan &a = plan.stages[size_t(from)], &b = plan.stages[size_t(to)];
  const LinkSpec pair = pair_link(run.hardware, firsts[size_t(from)], firsts[size_t(to)]);
  const double senders = double(std::min(a.num_ranks, b.num_ranks));
  const MeshPlacement parted{DimPlacement::Rows, DimPlacement::Rows};
  const int64_t first = firsts[size_t(to)];
  StageMesh receivers = b.mesh;
  for (MeshDim& dim : receivers.dims) {
    dim.span.nodes = run.hardware.nodes().sizes(first, first + b.num_ranks - 1);
  }
  const double gather_s = move_seconds(bytes, parted, b.stream, receivers, run.hardware);
  return {pair.latency_s + run.hardware.background_s + gather_s, pair.bytes_per_s * senders};
}

void take_better(std::optional<FoundPlan>& best, std::optional<FoundPlan> plan) {
  if (plan && (!best || plan->step_s < best->step_s)) best = std::move(plan);
}

// True if the search knows stages of as many ranks as those of the plan, where they lie.
bool has_meshes(const PlannedRun& run, const FoundPlan& plan) {
  const std::vector<int> sizes = mesh_sizes(run);
  const std::vector<int64_t> firsts = first_positions(plan);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const int ranks = plan.stages[s].num_ranks;
    if (!std::binary_search(sizes.begin(), sizes.end(), ranks)) return false;
    if (!may_lie(run, int(firsts[s]), ranks)) return false;
  }
  return true;
}

const FoundPlan* fastest_of(const std::vector<FoundPlan>& plans) {
  const auto fastest =
      std::min_element(plans.begin(), plans.end(),
                       [](const FoundPlan& a, const FoundPlan& b) { return a.step_s < b.step_s; });
  return fastest == plans.end() ? nullptr : &*fastest;
}

}  // namespace

std::vector<int64_t> microbatch_sizes(const PlannedRun& run) {
  std::vector<int64_t> sizes;
  const int64_t most_of_rank = run.model.reads_images() ? kMostImagesOfRank : kMostSequencesOfRank;
  for (int64_t size = 1; size <= run.global_sequences; ++size) {
    if (run.global_sequences % size == 0 && size <= most_of_rank * run.num_ranks) {
      sizes.push_back(size);
    }
  }
  // If there are many sizes, only powers of two are tried, because most numbers of ranks divide
  // them.
  constexpr size_t kMostSizes = 10;
  if (sizes.size() > kMostSizes) {
    std::erase_if(sizes, [](int64_t size) { return (size & (size - 1)) != 0; });
  }
  return sizes;
}

namespace {

// Returns the numbers of ranks of a stage on nodes of one size.
std::vector<int> sizes_on_nodes(int64_t ranks_of_node, int num_ranks) {
  const int per_node = int(std::min<int64_t>(ranks_of_node, num_ranks));
  std::vector<int> sizes;
  const bool is_large = num_ranks > kMostRanksInParts;
  for (int size = 1; size < per_node && !is_large; size *= 2) sizes.push_back(size);
  for (int nodes = 1; nodes * per_node <= num_ranks; nodes += is_large ? nodes : 1) {
    sizes.push_back(nodes * per_node);
  }
  return sizes;
}

}  // namespace

std::vector<int> mesh_sizes(const PlannedRun& run) {
  std::set<int> all;
  for (const int64_t size : run.hardware.nodes().sizes_of_run(run.num_ranks)) {
    const std::vector<int> sizes = sizes_on_nodes(size, run.num_ranks);
    all.insert(sizes.begin(), sizes.end());
  }
  return {all.begin(), all.end()};
}

bool may_lie(const PlannedRun& run, int first_rank, int num_ranks) {
  const NodeSizes nodes = run.hardware.nodes().sizes(first_rank, first_rank + num_ranks - 1);
  if (nodes.most == 0) return true;  // all nodes of the cluster are equal
  const std::vector<int> sizes = sizes_on_nodes(nodes.least, run.num_ranks);
  return nodes.least == nodes.most && std::binary_search(sizes.begin(), sizes.end(), num_ranks);
}

std::vector<int> operators_of(const PlannedRun& run) {
  std::vector<UnitWork> works;
  const bool reads_images = run.model.reads_images();
  // Numbers of a token or an image that a unit receives. The first unit of a net of images
  // computes.
  const auto border = [&](int64_t unit) {
    return double(reads_images ? block_of(run.model, unit).features() : run.model.d_model);
  };
  const double first =
      reads_images ? flops_per_token(embedding_graph(run.model), run.model).total() : 0.0;
  works.push_back({first, 0.0});
  for (int64_t layer = 0; layer < run.model.layers; ++layer) {
    works.push_back(
        {flops_per_token(layer_graph(run.model, layer), run.model).total(), border(layer + 1)});
  }
  works.push_back(
      {flops_per_token(head_graph(run.model), run.model).total(), border(run.model.layers + 1)});
  const int most = int(std::min<int64_t>(run.model.layers, kMostOperators));
  for (double slack = 0.5;; slack *= 2.0) {  // the head may be more than one operator's work
    if (auto firsts = cluster_units(works, most, slack)) return *firsts;
  }
}

void simulate_plan(const PlannedRun& run, FoundPlan& plan) {
  const int num_stages = int(plan.stages.size());
  Costs costs;
  costs.stages.clear();
  double sum = 0.0, slowest = 0.0;
  for (const StagePlan& stage : plan.stages) {
    costs.stages.push_back({.f_s = stage.forward_s, .b_s = stage.backward_s, .w_s = 0.0});
    sum += stage.seconds;
    slowest = std::max(slowest, stage.seconds);
  }
  plan.formula_s = sum + double(plan.num_microbatches - 1) * slowest;
  costs.message_bytes = message_bytes(run, plan.sequences);
  std::vector<Link> links;
  for (int from = 0; from < num_stages; ++from) {
    for (int to = 0; to < num_stages; ++to) {
      links.push_back(link_between(run, plan, costs.message_bytes, from, to));
    }
  }
  costs.link_of = [links, num_stages](int from, int to) {
    return links[size_t(from * num_stages + to)];
  };
  const Result<Schedule> schedule = make_schedule(
      "1f1b", {.num_ranks = num_stages, .num_microbatches = int(plan.num_microbatches)});
  TRIREME_CHECK(schedule.ok(), "1F1B takes every number of stages");
  const Result<Simulation> simulated = simulate(*schedule, costs);
  TRIREME_CHECK(simulated.ok(), "1F1B does not hang");
  plan.step_s = 0.0;
  for (int s = 0; s < num_stages; ++s) {
    plan.step_s = std::max(plan.step_s,
                           simulated->ranks[size_t(s)].last_end_s + plan.stages[size_t(s)].step_s);
  }
  plan.step_s += run.hardware.step_s;
}

namespace {

// Finds the best plan by op. Shorter steps than `least_s` alone count, but longer ones may be
// found, too.
class PlanByOpSearch {
 public:
  PlanByOpSearch(const PlannedRun& run, const std::vector<int>& operators, double least_s)
      : run_(run), operators_(operators), least_s_(least_s) {}

  std::optional<FoundPlan> run(const std::vector<FoundPlan>& uniforms) {
    for (const int64_t sequences : sizes()) {
      ClusterStages search(run_, sequences);
      search.leave_out_above(least_s_, mesh_sizes(run_));
      // The formula does not price messages between stages. The second split adds one message to
      // the time of every stage. The simulation decides which split is better.
      for (const bool counts_messages : {false, true}) {
        take(split_plan(run_, search, by_op(search), operators_, counts_messages));
      }
      // The split of the shortest formula may not have the shortest simulation, so the ops also
      // choose their roles in the stages of uniform plans.
      for (const FoundPlan& uniform : uniforms) {
        if (uniform.sequences != sequences || !has_meshes(run_, uniform)) continue;
        take(with_stages_of(run_, search, by_op(search), uniform));
      }
    }
    return std::move(best_);
  }

 private:
  // Returns the sizes of micro-batches. With many kinds of units a first search with fewer ways
  // finds a plan for most of them, so that the other search can leave out what is slower; the sizes
  // with the fastest of these plans come first.
  std::vector<int64_t> sizes() {
    std::vector<int64_t> all = microbatch_sizes(run_);
    if (!StageSearch(run_, all.front()).has_many_kinds()) return all;
    std::vector<std::pair<double, int64_t>> order;
    for (const int64_t sequences : all) {
      ClusterStages search(run_, sequences, kSameBytesAtFirst);
      search.leave_out_above(least_s_, mesh_sizes(run_));
      auto plan = split_plan(run_, search, by_op(search), operators_, true);
      order.emplace_back(plan ? plan->step_s : kImpossible, sequences);
      take(std::move(plan));
    }
    std::sort(order.begin(), order.end());
    std::vector<int64_t> sizes;
    for (const auto& [step_s, sequences] : order) sizes.push_back(sequences);
    return sizes;
  }

  void take(std::optional<FoundPlan> plan) {
    if (!plan) return;
    least_s_ = std::min(least_s_, plan->step_s);
    take_better(best_, std::move(plan));
  }

  const PlannedRun& run_;
  const std::vector<int>& operators_;
  double least_s_;
  std::optional<FoundPlan> best_;
};

}  // namespace

Result<PlanSearch> search_plan(const PlannedRun& run) {
  PlanSearch result;
  const std::vector<int> operators = operators_of(run);
  result.num_operators = int(operators.size());
  for (const int64_t sequences : microbatch_sizes(run)) {
    ClusterStages search(run, sequences);
    ++result.num_microbatch_sizes;
    add_uniform_plans(run, search, sequences, LayerSplit::Even, result.uniforms);
    if (!run.hardware.is_mixed()) continue;
    add_uniform_plans(run, search, sequences, LayerSplit::BySpeed, result.by_speed);
  }
  const FoundPlan* fastest_uniform = fastest_of(result.uniforms);
  const double least_s = fastest_uniform != nullptr ? fastest_uniform->step_s : kImpossible;
  std::optional<FoundPlan> best = PlanByOpSearch(run, operators, least_s).run(result.uniforms);
  std::set<int64_t> near;  // sizes of micro-batches of the best plans so far
  if (best) near.insert(best->sequences);
  if (fastest_uniform != nullptr) near.insert(fastest_uniform->sequences);
  for (const int64_t sequences : near) {
    add_plans_by_stage(run, sequences, operators, result.by_stage);
  }
  for (std::vector<FoundPlan>* plans : {&result.uniforms, &result.by_speed, &result.by_stage}) {
    std::stable_sort(plans->begin(), plans->end(),
                     [](const FoundPlan& a, const FoundPlan& b) { return a.step_s < b.step_s; });
    if (!plans->empty()) take_better(best, plans->front());
  }
  // If two plans are equal, the uniform one is the simpler.
  constexpr double kEqual = 1.0 + 1e-9;
  const bool has_uniform = best && !result.uniforms.empty();
  if (has_uniform && result.uniforms.front().step_s <= kEqual * best->step_s) {
    best = result.uniforms.front();
  }
  if (!best) return refuse_plan(run);
  result.best = std::move(*best);
  return result;
}

}  // namespace trireme
