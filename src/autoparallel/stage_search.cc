#include "autoparallel/stage_search.h"

#include <fmt/format.h>

#include <algorithm>

#include "autoparallel/eliminate_choices.h"
#include "autoparallel/stage_settings.h"
#include "autoparallel/way_chooser.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

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

StageSearch::StageSearch(const PlannedRun& run, int64_t sequences, double same_bytes)
    : run_(run),
      sequences_(sequences),
      num_microbatches_(run.global_sequences / sequences),
      layer_kinds_(trireme::layer_kinds(run.model)),
      same_bytes_(has_many_kinds() ? same_bytes : 0.0) {
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

std::vector<UnitSetting> StageSearch::settings_of(const Kind& kind, const StageMesh& mesh) const {
  std::vector<UnitSetting> settings;
  for (const Recompute recompute : run_.recomputes) {
    const bool is_layer = kind.unit.name().starts_with("layers.");
    if (!is_layer && recompute != run_.recomputes.front()) continue;
    for (const StateSharding sharding : shardings_of(mesh, recompute)) {
      settings.push_back({.mesh = mesh,
                          .recompute = recompute,
                          .sharding = sharding,
                          .num_microbatches = num_microbatches_,
                          .shares_table = kind.shares_table});
    }
  }
  return settings;
}

// Returns the ways for each placement of the residual stream: [stream].
std::vector<std::vector<UnitWay>> StageSearch::ways_of(Kind& kind, const StageMesh& mesh,
                                                       const std::vector<MeshPlacement>& streams,
                                                       double most_s) {
  const ChoiceLimit limit{.bytes = run_.memory_bytes, .seconds = most_s, .same_bytes = same_bytes_};
  std::vector<std::vector<UnitWay>> ways(streams.size());
  for (const UnitSetting& setting : settings_of(kind, mesh)) {
    const std::vector<UnitProblem> units = unit_problems(kind.unit, setting, streams, most_s);
    for (size_t s = 0; s < units.size(); ++s) {
      for (const Assignment& assignment : best_tradeoffs(units[s].problem, limit)) {
        ways[s].push_back(way_of(kind, units[s], assignment, setting));
      }
    }
  }
  for (std::vector<UnitWay>& of_stream : ways) keep_best(of_stream);
  return ways;
}

const std::vector<MeshWays>& StageSearch::ways(int num_ranks) {
  const auto [known, is_new] = ways_.try_emplace(num_ranks);
  if (!is_new) return known->second;
  for (const StageMesh& mesh : stage_meshes(num_ranks, sequences_)) {
    if (is_mirrored(mesh, run_.hardware.nodes().least_size(num_ranks))) continue;
    const std::vector<MeshPlacement> streams = streams_of(mesh);
    const size_t first = known->second.size();
    for (const MeshPlacement& stream : streams) known->second.push_back({mesh, stream, {}});
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      const double most_s = rank_seconds_.of_kind.empty()
                                ? kImpossible
                                : (rank_seconds_.of_kind[kind] + rank_seconds_.spare) / num_ranks;
      auto of_streams = ways_of(*kinds_[kind], mesh, streams, most_s);
      for (size_t s = 0; s < streams.size(); ++s) {
        known->second[first + s].kinds.push_back(std::move(of_streams[s]));
      }
    }
  }
  return known->second;
}

double StageSearch::best_seconds(int first_unit, int last_unit, int num_ranks, int in_flight) {
  if (has_many_kinds()) return choice_of(first_unit, last_unit, num_ranks, in_flight).seconds;
  const std::vector<PlacedUnits> units = counts(first_unit, last_unit);
  double least = kImpossible;
  for (const MeshWays& mesh : ways(num_ranks)) {
    WayChooser(units, mesh.kinds, run_.memory_bytes, in_flight).run(least);
  }
  return least;
}

std::optional<StagePlan> StageSearch::best(int first_unit, int last_unit, int num_ranks,
                                           int in_flight) {
  std::optional<StagePlan> found =
      has_many_kinds() ? best_of_many_kinds(first_unit, last_unit, num_ranks, in_flight)
                       : best_of_few_kinds(counts(first_unit, last_unit), num_ranks, in_flight);
  if (!found) return found;
  found->backward_s = found->seconds - found->forward_s - found->step_s / double(num_microbatches_);
  for (PlacedUnits& units : found->units) {
    units.way.ops = ops_of(units, found->mesh, found->stream);
  }
  return found;
}

std::vector<OpRoles> StageSearch::ops_of(const PlacedUnits& units, const StageMesh& mesh,
                                         const MeshPlacement& stream) {
  Kind& kind = *kinds_[size_t(units.kind)];
  const OpGroups& groups = kind.unit.groups();
  const UnitProblem unit = unit_problem(kind.unit, {.mesh = mesh,
                                                    .recompute = units.way.recompute,
                                                    .sharding = units.way.sharding,
                                                    .num_microbatches = num_microbatches_,
                                                    .stream = stream,
                                                    .shares_table = kind.shares_table});
  std::vector<OpRoles> ops;
  for (size_t group = 0; group < groups.groups().size(); ++group) {
    OpRoles& op = ops.emplace_back(OpRoles{groups.groups()[group].name});
    for (const ParamId param : groups.groups()[group].params) {
      op.has_matrix |= groups.graph().params[size_t(param)].is_matrix();
    }
    const auto& choices = unit.choice_of_roles[size_t(unit.node_of_group[group])];
    for (const auto& [roles, choice] : choices) {
      if (groups.placed_alike(int(group), roles, units.way.roles[group])) {
        op.alike.push_back(roles);
      }
    }
  }
  return ops;
}

std::optional<StagePlan> StageSearch::best_of_few_kinds(const std::vector<PlacedUnits>& units,
                                                        int num_ranks, int in_flight) {
  std::optional<StagePlan> found;
  double least = kImpossible;
  for (const MeshWays& mesh : ways(num_ranks)) {
    WayChooser chooser(units, mesh.kinds, run_.memory_bytes, in_flight);
    if (!chooser.run(least)) continue;
    found = stage_of(units, chooser.best(), mesh.mesh, mesh.stream, in_flight);
  }
  return found;
}

double StageSearch::least_bytes(int first_unit, int last_unit, int num_ranks, int in_flight) {
  const ChoiceLimit limit{.in_flight = double(in_flight)};
  double least = kImpossible;
  for (const StageMesh& mesh : stage_meshes(num_ranks, sequences_)) {
    double bytes = 0.0, scratch_bytes = 0.0;
    for (const PlacedUnits& units : counts(first_unit, last_unit)) {
      Kind& kind = *kinds_[size_t(units.kind)];
      double of_unit = kImpossible, scratch_of_unit = kImpossible;
      for (const Recompute recompute : run_.recomputes) {
        for (const StateSharding sharding : shardings_of(mesh, recompute)) {
          const UnitSetting setting{.mesh = mesh,
                                    .recompute = recompute,
                                    .sharding = sharding,
                                    .num_microbatches = num_microbatches_,
                                    .stream = streams_of(mesh).back(),
                                    .shares_table = kind.shares_table};
          const UnitProblem unit = unit_problem(kind.unit, setting);
          for (const Assignment& assignment : best_tradeoffs(unit.problem)) {
            of_unit = std::min(of_unit, limit.bytes_of(assignment.cost));
            const UnitWay way = way_of(kind, unit, assignment, setting);
            scratch_of_unit = std::min(scratch_of_unit, way.scratch_bytes);
          }
        }
      }
      bytes += units.count * of_unit;
      scratch_bytes = std::max(scratch_bytes, scratch_of_unit);
    }
    least = std::min(least, bytes + scratch_bytes);
  }
  return least;
}

std::vector<StageSearch::Uniform> StageSearch::uniforms(int num_ranks) const {
  std::vector<Uniform> all;
  for (const StageMesh& mesh : stage_meshes(num_ranks, sequences_)) {
    const auto roles_on = [&](const MeshDim& dim) -> std::vector<Role> {
      if (dim.degree() == 1) return {Role::Whole};
      std::vector<Role> roles{dim.rows, Role::SequenceTensor};
      // Ranks of tp always share out images (compile/shape_for_mesh.cc).
      if (!run_.model.reads_images()) roles.push_back(Role::Tensor);
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
                              .shares_table = priced.shares_table,
                              .roles = uniform.roles};
    const UnitProblem unit = unit_problem(priced.unit, setting);
    const auto found = least_seconds(unit.problem, {});
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
