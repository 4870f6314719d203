#include "autoparallel/stage_search.h"

#include <fmt/format.h>

#include <algorithm>

#include "autoparallel/eliminate_choices.h"
#include "autoparallel/way_chooser.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

// Without data parallelism there is nothing to shard. A stage that recomputes is short of memory,
// so it always shards the optimizer state.
std::vector<StateSharding> shardings_of(const StageMesh& mesh, Recompute recompute) {
  const bool has_data = std::any_of(mesh.dims.begin(), mesh.dims.end(), [](const MeshDim& dim) {
    return dim.degree() > 1 && dim.rows == Role::Data;
  });
  if (!has_data) return {StateSharding::Nothing};
  if (recompute != Recompute::None) return {StateSharding::Optimizer, StateSharding::Everything};
  return {StateSharding::Nothing, StateSharding::Optimizer, StateSharding::Everything};
}

// True if another grid differs from this one in the order of its dims only. Inside a node all links
// are alike, so one of the two is enough.
bool is_mirrored(const StageMesh& mesh, int ranks_per_node) {
  return mesh.num_ranks() <= ranks_per_node && mesh.dims[0].degree() > mesh.dims[1].degree() &&
         mesh.dims[1].degree() > 1;
}

std::vector<MeshPlacement> streams_of(const StageMesh& mesh) {
  std::vector<MeshPlacement> streams;
  for (const DimPlacement outer : {DimPlacement::Invariant, DimPlacement::Rows}) {
    for (const DimPlacement inner : {DimPlacement::Invariant, DimPlacement::Rows}) {
      if (mesh.dims[0].degree() == 1 && outer == DimPlacement::Rows) continue;
      if (mesh.dims[1].degree() == 1 && inner == DimPlacement::Rows) continue;
      streams.push_back({outer, inner});
    }
  }
  return streams;
}

// Returns how the residual stream lies if all ops have these roles.
MeshPlacement stream_of(const Roles& roles) {
  MeshPlacement stream;
  for (size_t d = 0; d < 2; ++d) {
    const bool is_whole = roles[d] == Role::Tensor || roles[d] == Role::Whole;
    stream[d] = is_whole ? DimPlacement::Invariant : DimPlacement::Rows;
  }
  return stream;
}

void keep_best(std::vector<UnitWay>& ways) {
  std::stable_sort(ways.begin(), ways.end(), [](const UnitWay& a, const UnitWay& b) {
    return a.cost.seconds < b.cost.seconds;
  });
  std::vector<UnitWay> kept;
  for (UnitWay& way : ways) {
    const bool is_beaten = std::any_of(kept.begin(), kept.end(), [&](const UnitWay& other) {
      return is_no_worse(other.cost, way.cost) && other.scratch_bytes <= way.scratch_bytes;
    });
    if (!is_beaten) kept.push_back(std::move(way));
  }
  ways = std::move(kept);
}

}  // namespace

struct StageSearch::Kind {
  PricedUnit unit;
  bool shares_table = false;
};

struct StageSearch::MeshWays {
  StageMesh mesh;
  MeshPlacement stream;
  std::vector<std::vector<UnitWay>> kinds;
};

StageSearch::StageSearch(const PlannedRun& run, int64_t sequences)
    : run_(run),
      sequences_(sequences),
      num_microbatches_(run.global_sequences / sequences),
      layer_kinds_(trireme::layer_kinds(run.model)) {
  const auto add = [&](const Graph& stated, int64_t layer, bool shares_table) {
    kinds_.push_back(std::unique_ptr<Kind>(
        new Kind{PricedUnit(stated, layer, run.model, run.base, run.hardware), shares_table}));
  };
  add(embedding_graph(run.model), -1, false);
  for (const LayerRun& kind : layer_kinds_) {
    add(layer_graph(run.model, kind.first), kind.first, false);
  }
  add(head_graph(run.model), -1, false);
  add(head_graph(run.model), -1, run.model.tied_head);
}
StageSearch::~StageSearch() = default;

const OpGroups& StageSearch::groups(int kind) const { return kinds_[size_t(kind)]->unit.groups(); }

// Returns the units of a stage by kind.
std::vector<PlacedUnits> StageSearch::counts(int first_unit, int last_unit) const {
  std::vector<PlacedUnits> units;
  const bool has_embedding = first_unit == 0;
  if (has_embedding) units.push_back({0, 0, 1, {}});
  for (size_t kind = 0; kind < layer_kinds_.size(); ++kind) {
    const LayerRun& run = layer_kinds_[kind];
    const int64_t first = std::max<int64_t>(run.first + 1, first_unit);
    const int64_t end = std::min<int64_t>(run.first + 1 + run.count, int64_t{last_unit} + 1);
    if (end > first) units.push_back({int(kind) + 1, int(first), int(end - first), {}});
  }
  const int head = int(layer_kinds_.size()) + 1;
  if (last_unit == run_.num_units() - 1) {
    units.push_back({has_embedding ? head + 1 : head, last_unit, 1, {}});
  }
  return units;
}

UnitWay StageSearch::way_of(const Kind& kind, const UnitProblem& unit, const Assignment& assignment,
                            const UnitSetting& setting) const {
  UnitWay way{
      .cost = assignment.cost, .recompute = setting.recompute, .sharding = setting.sharding};
  for (const int node : unit.node_of_group) {
    const GroupChoice& choice =
        unit.choices[size_t(node)][size_t(assignment.choices[size_t(node)])];
    way.roles.push_back(choice.roles);
    way.forward_s += choice.forward_s;
    way.step_s += choice.step_s;
    way.scratch_bytes = std::max(way.scratch_bytes, choice.scratch_bytes);
  }
  for (size_t e = 0; e < unit.problem.edges.size(); ++e) {
    const ChoiceEdge& edge = unit.problem.edges[e];
    const size_t columns = unit.problem.nodes[size_t(edge.to)].choices.size();
    way.forward_s +=
        unit.edge_forward_s[e][size_t(assignment.choices[size_t(edge.from)]) * columns +
                               size_t(assignment.choices[size_t(edge.to)])];
  }
  // While a unit runs, its parameters are whole, and those of the next unit are being gathered.
  if (setting.sharding == StateSharding::Everything && !kind.shares_table) {
    double shares = 1.0;
    for (const MeshDim& dim : setting.mesh.dims) {
      if (dim.rows == Role::Data) shares *= double(dim.degree());
    }
    const double param_share = double(size_of(run_.base.compute)) /
                               double(size_of(run_.base.compute) + size_of(run_.base.grad) + 12);
    way.scratch_bytes += 2.0 * shares * param_share * way.cost.state_bytes;
  }
  return way;
}

std::vector<UnitWay> StageSearch::ways_of(Kind& kind, const StageMesh& mesh,
                                          const MeshPlacement& stream) {
  std::vector<UnitWay> ways;
  for (const Recompute recompute : run_.recomputes) {
    const bool is_layer = kind.unit.name().starts_with("layers.");
    if (!is_layer && recompute != run_.recomputes.front()) continue;
    for (const StateSharding sharding : shardings_of(mesh, recompute)) {
      const UnitSetting setting{.mesh = mesh,
                                .recompute = recompute,
                                .sharding = sharding,
                                .num_microbatches = num_microbatches_,
                                .stream = stream,
                                .shares_table = kind.shares_table};
      const UnitProblem unit = kind.unit.problem(setting);
      for (const Assignment& assignment : best_tradeoffs(unit.problem, {run_.memory_bytes, 1.0})) {
        ways.push_back(way_of(kind, unit, assignment, setting));
      }
    }
  }
  keep_best(ways);
  return ways;
}

std::vector<StageSearch::MeshWays>& StageSearch::ways(int num_ranks) {
  const auto [known, is_new] = ways_.try_emplace(num_ranks);
  if (!is_new) return known->second;
  for (const StageMesh& mesh : stage_meshes(num_ranks, sequences_)) {
    if (is_mirrored(mesh, run_.hardware.ranks_per_node())) continue;
    for (const MeshPlacement& stream : streams_of(mesh)) {
      MeshWays ways{mesh, stream, {}};
      for (const auto& kind : kinds_) ways.kinds.push_back(ways_of(*kind, mesh, stream));
      known->second.push_back(std::move(ways));
    }
  }
  return known->second;
}

double StageSearch::best_seconds(int first_unit, int last_unit, int num_ranks, int in_flight) {
  const std::vector<PlacedUnits> units = counts(first_unit, last_unit);
  double least = kImpossible;
  for (const MeshWays& mesh : ways(num_ranks)) {
    WayChooser(units, mesh.kinds, run_.memory_bytes, in_flight).run(least);
  }
  return least;
}

std::optional<StagePlan> StageSearch::best(int first_unit, int last_unit, int num_ranks,
                                           int in_flight) {
  const std::vector<PlacedUnits> units = counts(first_unit, last_unit);
  std::optional<StagePlan> found;
  double least = kImpossible;
  for (const MeshWays& mesh : ways(num_ranks)) {
    WayChooser chooser(units, mesh.kinds, run_.memory_bytes, in_flight);
    if (!chooser.run(least)) continue;
    found = stage_of(units, chooser.best(), mesh.mesh, mesh.stream, in_flight);
    found->backward_s =
        found->seconds - found->forward_s - found->step_s / double(num_microbatches_);
  }
  return found;
}

double StageSearch::least_bytes(int first_unit, int last_unit, int num_ranks, int in_flight) {
  const ChoiceLimit limit{.in_flight = double(in_flight)};
  double least = kImpossible;
  for (const StageMesh& mesh : stage_meshes(num_ranks, sequences_)) {
    double bytes = 0.0;
    for (const PlacedUnits& units : counts(first_unit, last_unit)) {
      Kind& kind = *kinds_[size_t(units.kind)];
      double of_unit = kImpossible;
      for (const Recompute recompute : run_.recomputes) {
        for (const StateSharding sharding : shardings_of(mesh, recompute)) {
          const UnitProblem unit = kind.unit.problem({.mesh = mesh,
                                                      .recompute = recompute,
                                                      .sharding = sharding,
                                                      .num_microbatches = num_microbatches_,
                                                      .stream = streams_of(mesh).back(),
                                                      .shares_table = kind.shares_table});
          for (const Assignment& assignment : best_tradeoffs(unit.problem)) {
            of_unit = std::min(of_unit, limit.bytes_of(assignment.cost));
          }
        }
      }
      bytes += units.count * of_unit;
    }
    least = std::min(least, bytes);
  }
  return least;
}

std::vector<StageSearch::Uniform> StageSearch::uniforms(int num_ranks) const {
  std::vector<Uniform> all;
  for (const StageMesh& mesh : stage_meshes(num_ranks, sequences_)) {
    const auto roles_on = [&](const MeshDim& dim) -> std::vector<Role> {
      if (dim.degree() == 1) return {Role::Whole};
      std::vector<Role> roles{dim.rows, Role::Tensor, Role::SequenceTensor};
      if (run_.model.has_experts()) roles.push_back(Role::Expert);
      return roles;
    };
    for (const Role outer : roles_on(mesh.dims[0])) {
      for (const Role inner : roles_on(mesh.dims[1])) {
        if (outer == Role::Tensor || outer == Role::SequenceTensor) {
          if (mesh.dims[1].degree() > 1) continue;  // tp is the inner axis of a mesh
        }
        for (const Recompute recompute : run_.recomputes) {
          for (const StateSharding sharding : shardings_of(mesh, recompute)) {
            all.push_back({mesh, {outer, inner}, recompute, sharding});
          }
        }
      }
    }
  }
  return all;
}

const UnitWay* StageSearch::uniform_way(const Uniform& uniform, int kind) {
  const auto& [outer, inner] = uniform.mesh.dims;
  const UniformKey key(kind, outer.degree(), inner.degree(), outer.rows, inner.rows,
                       uniform.roles[0], uniform.roles[1], uniform.recompute, uniform.sharding);
  const auto [known, is_new] = uniform_ways_.try_emplace(key);
  if (is_new) {
    Kind& priced = *kinds_[size_t(kind)];
    const UnitSetting setting{.mesh = uniform.mesh,
                              .recompute = uniform.recompute,
                              .sharding = uniform.sharding,
                              .num_microbatches = num_microbatches_,
                              .stream = stream_of(uniform.roles),
                              .shares_table = priced.shares_table};
    const UnitProblem unit = priced.unit.problem(setting);
    const auto fixed = with_roles(unit, uniform.mesh, uniform.roles);
    const auto found = fixed ? least_seconds(*fixed, {}) : std::nullopt;
    if (found) known->second = way_of(priced, unit, *found, setting);
  }
  return known->second ? &*known->second : nullptr;
}

std::optional<StagePlan> StageSearch::uniform_stage(const Uniform& uniform, int first_unit,
                                                    int last_unit, int in_flight) {
  const std::vector<PlacedUnits> units = counts(first_unit, last_unit);
  std::vector<const UnitWay*> ways;
  for (const PlacedUnits& unit : units) {
    ways.push_back(uniform_way(uniform, unit.kind));
    if (ways.back() == nullptr) return std::nullopt;
  }
  StagePlan plan = stage_of(units, ways, uniform.mesh, stream_of(uniform.roles), in_flight);
  plan.roles = uniform.roles;
  plan.backward_s = plan.seconds - plan.forward_s - plan.step_s / double(num_microbatches_);
  return plan;
}

}  // namespace trireme
