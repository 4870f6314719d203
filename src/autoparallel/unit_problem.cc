#include "autoparallel/unit_problem.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "compile/collective_price.h"
#include "compile/step_price.h"
#include "graph/axis_part.h"
#include "graph/backward_reads.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

bool is_gather(const MeshPlacement& from, const MeshPlacement& to) {
  const auto gathers = [](DimPlacement a, DimPlacement b) {
    return a != b && b == DimPlacement::Replicate;
  };
  return gathers(from[0], to[0]) || gathers(from[1], to[1]);
}

// Returns the seconds of a transfer that the computation beside it does not hide.
double exposed_s(double transfer_s, double compute_s, const Hardware& hardware) {
  return std::max(transfer_s - compute_s, hardware.overlap_share * transfer_s);
}

// Seconds of a redistribution in a micro-batch, and the part of them that belongs to F.
struct MoveCost {
  double total_s = 0.0;
  double forward_s = 0.0;
};

}  // namespace

// Builds the problem of a unit for one setting.
class UnitProblemBuilder {
 public:
  UnitProblemBuilder(PricedUnit& unit, const UnitSetting& setting)
      : unit_(unit),
        setting_(setting),
        stream_(setting.stream),
        moves_(unit.moves_on(setting.mesh)) {
    unit_.base_.recompute = setting.recompute;
  }

  // Adds the groups, whose choices do not depend on the residual stream.
  double add_groups() {
    add_stream("input");
    for (size_t group = 0; group < groups().size(); ++group) add_group(group);
    return least_seconds_of_nodes(result_.problem);
  }
  std::vector<UnitProblem> with_streams(const std::vector<MeshPlacement>& streams) {
    std::vector<UnitProblem> problems;
    for (const MeshPlacement& stream : streams) {
      stream_ = stream;
      if (problems.empty()) {
        for (const int node : streams_) placements_[size_t(node)] = {stream_};
        add_uses();
      } else {
        move_streams();
      }
      problems.push_back(result_);
    }
    return problems;
  }

 private:
  const std::vector<OpGroup>& groups() const { return unit_.groups_.groups(); }
  const Graph& graph() const { return unit_.groups_.graph(); }
  const StageMesh& mesh() const { return setting_.mesh; }

  int add_node(std::string name) {
    result_.problem.nodes.push_back({std::move(name), {}});
    result_.choices.emplace_back();
    result_.choice_of_roles.emplace_back();
    placements_.emplace_back();
    return int(result_.problem.nodes.size()) - 1;
  }
  // Adds a node for a value that can lie in several ways.
  int add_value(const std::string& name, const std::vector<MeshPlacement>& placements) {
    const int node = add_node(name);
    result_.problem.nodes.back().choices.resize(placements.size());
    result_.choices.back().resize(placements.size());
    placements_.back() = placements;
    return node;
  }
  int add_stream(const std::string& name) {
    const int node = add_value(name, {stream_});
    streams_.push_back(node);
    return node;
  }

  // ---- choices of groups

  bool is_of_experts(const OpGroup& group) const {
    return std::any_of(group.ops.begin(), group.ops.end(), [&](size_t op) {
      const ValueId made = graph().ops[op].outputs.front();
      return unit_.groups_.made(op, made, Role::Expert) == DimPlacement::Experts;
    });
  }
  // Roles on a dim of one rank are all the same. Expert is Data where no tensor lies by expert.
  static std::vector<Role> roles_on(const MeshDim& dim, bool is_of_experts) {
    if (dim.degree() == 1) return {Role::Whole};
    std::vector<Role> roles{dim.rows, Role::Tensor, Role::SequenceTensor, Role::Whole};
    if (is_of_experts) roles.insert(roles.begin() + 1, Role::Expert);
    return roles;
  }
  // Returns the roles of a group if all ops have those of the setting.
  Roles uniform_roles(bool has_experts) const {
    Roles roles = *setting_.roles;
    for (size_t d = 0; d < 2; ++d) {
      if (mesh().dims[d].degree() == 1) {
        roles[d] = Role::Whole;
      } else if (roles[d] == Role::Expert && !has_experts) {
        roles[d] = mesh().dims[d].rows;
      }
    }
    return roles;
  }

  void add_group(size_t index) {
    const OpGroup& group = groups()[index];
    const int node = add_node(group.name);
    result_.node_of_group.push_back(node);
    const bool has_experts = is_of_experts(group);
    const auto add = [&](const std::optional<Roles>& wanted) {
      for (const Role outer : roles_on(mesh().dims[0], has_experts)) {
        for (const Role inner : roles_on(mesh().dims[1], has_experts)) {
          if (!wanted || *wanted == Roles{outer, inner}) add_choice(index, {outer, inner});
        }
      }
    };
    if (!setting_.roles) return add(std::nullopt);
    add(uniform_roles(has_experts));
    if (result_.choices.back().empty() && has_experts) add(uniform_roles(false));
  }

  void add_choice(size_t index, const Roles& roles) {
    const auto layout = layout_of(unit_.model_, unit_.base_, mesh(), roles);
    if (!layout) return;
    const GroupPrice& price = unit_.prices_.of(*layout)[index];
    GroupChoice choice{.roles = roles};
    choice.compute_s = price.forward_s + price.backward_s + price.again_s;
    choice.scratch_bytes = price.scratch_bytes;
    const MoveCost inside = inside_of(int(index), roles, price.again_s > 0.0);
    choice.inside_s = inside.total_s;
    choice.forward_s = price.forward_s + inside.forward_s;
    ChoiceCost cost{.activation_bytes = price.saved_bytes};
    add_params(index, roles, price, *layout, choice, cost);
    cost.seconds = choice.compute_s + choice.inside_s + choice.gather_s +
                   choice.step_s / double(setting_.num_microbatches);
    const std::vector<ChoiceCost>& known = result_.problem.nodes.back().choices;
    for (size_t other = 0; other < known.size(); ++other) {
      const Roles& others = result_.choices.back()[other].roles;
      if (!is_no_worse(known[other], cost)) continue;
      if (!unit_.groups_.placed_alike(int(index), others, roles)) continue;
      result_.choice_of_roles.back()[roles] = int(other);
      return;
    }
    result_.choice_of_roles.back()[roles] = int(known.size());
    result_.problem.nodes.back().choices.push_back(cost);
    result_.choices.back().push_back(choice);
  }

  MeshPlacement needed(const ValueUse& use, const Roles& roles) const {
    return {unit_.groups_.needed(use.reader, use.value, roles[0]),
            unit_.groups_.needed(use.reader, use.value, roles[1])};
  }
  MeshPlacement made(const ValueUse& use, const Roles& roles) const {
    return {unit_.groups_.made(use.maker, use.value, roles[0]),
            unit_.groups_.made(use.maker, use.value, roles[1])};
  }

  MoveCost inside_of(int index, const Roles& roles, bool runs_again) {
    MoveCost sum;
    for (const ValueUse& use : unit_.groups_.uses()) {
      if (use.from != index || use.to != index) continue;
      const MoveCost cost =
          move(use.value, made(use, roles), needed(use, roles), runs_again, false);
      sum.total_s += cost.total_s;
      sum.forward_s += cost.forward_s;
    }
    return sum;
  }

  // Adds the memory of the group's parameters, and the time of gathers and of sums of gradients.
  void add_params(size_t index, const Roles& roles, const GroupPrice& price,
                  const StageShape& layout, GroupChoice& choice, ChoiceCost& cost) const {
    const Hardware& hardware = unit_.hardware_;
    const double param_bytes = double(size_of(layout.compute));
    const double grad_bytes = double(size_of(layout.grad));
    const double optimizer_bytes = double(state_bytes(layout));
    double copies = 1.0;  // ranks of data, over all dims
    for (size_t d = 0; d < 2; ++d) {
      if (roles[d] == Role::Data) copies *= double(mesh().dims[d].degree());
    }
    const StateSharding sharding = copies > 1.0 ? setting_.sharding : StateSharding::Nothing;
    const bool shards_all = sharding == StateSharding::Everything;
    const double updaters = sharding == StateSharding::Nothing ? 1.0 : copies;
    // In each micro-batch, gather_s gathers parameters and scatter_s sums gradients. In each step,
    // the last backward pass may hide hidden_s, and late_s follows behind it.
    double gather_s = 0.0, scatter_s = 0.0, hidden_s = 0.0, late_s = 0.0, trained = 0.0;
    for (const auto& [id, elements] : price.elements) {
      const Param& param = graph().params[size_t(id)];
      if (setting_.shares_table && param.name == kTokenTable) continue;
      const double optimizer = optimizer_bytes / (shards_all ? 1.0 : updaters);
      const double of_training = param.is_trained ? grad_bytes + optimizer : 0.0;
      cost.state_bytes += elements * (param_bytes + of_training) / (shards_all ? copies : 1.0);
      if (param.is_trained) trained += elements;
      double part = elements;  // each dim sums what the inner one has left
      for (size_t d = 2; d-- > 0;) {
        const MeshDim& dim = mesh().dims[d];
        if (dim.degree() == 1 || !sums_grad(index, id, roles[d])) continue;
        // Vectors travel in one message with the matrices beside them.
        const double joined_s =
            param.is_matrix() ? 0.0
                              : collective_latency_s(hardware, dim.span, VectorMove::AllGather);
        const auto without = [&](double seconds) { return std::max(0.0, seconds - joined_s); };
        const double gather_params_s = without(param_moves(part * param_bytes, d)[0]);
        const std::array<double, 2>& of_grads = param_moves(part * grad_bytes, d);
        const double half_sum_s = without(of_grads[0]), sum_s = without(of_grads[1]);
        if (shards_all && roles[d] == Role::Data) gather_s += gather_params_s;
        if (!param.is_trained) {
          // Nothing is summed.
        } else if (roles[d] != Role::Data) {
          late_s += sum_s;
        } else if (shards_all) {
          scatter_s += half_sum_s;
        } else if (sharding == StateSharding::Optimizer) {
          hidden_s += half_sum_s;
          late_s += gather_params_s;
        } else {
          hidden_s += sum_s;
        }
        part /= double(dim.degree());
      }
    }
    const double forward_gather_s = exposed_s(gather_s, price.forward_s, hardware);
    choice.gather_s =
        forward_gather_s + exposed_s(gather_s + scatter_s, price.backward_s, hardware);
    choice.forward_s += forward_gather_s;
    choice.step_s = late_s + exposed_s(hidden_s, price.backward_s, hardware);
    if (trained > 0.0) choice.step_s += price_update(trained / updaters, layout, hardware);
  }

  // Returns the seconds of an all-gather and of an all-reduce over a dim.
  const std::array<double, 2>& param_moves(double bytes, size_t d) const {
    const auto [known, is_new] = moves_.of_param.try_emplace({d, bytes});
    if (is_new) {
      const MeshDim& dim = mesh().dims[d];
      known->second = {gather_seconds(bytes, dim, unit_.hardware_),
                       all_reduce_seconds(bytes, dim, unit_.hardware_)};
    }
    return known->second;
  }

  // True if the ranks of a dim have addends of the gradient of a parameter.
  bool sums_grad(size_t index, ParamId id, Role role) const {
    const Param& param = graph().params[size_t(id)];
    if (role == Role::Data || role == Role::Context) return true;
    if (role == Role::Expert || role == Role::Whole) return false;
    if (placement_of(param) != Placement::invariant()) return false;
    for (const size_t op : groups()[index].ops) {
      const std::vector<ParamId>& params = graph().ops[op].params;
      if (std::find(params.begin(), params.end(), id) == params.end()) continue;
      return unit_.groups_.grad_is_addend(op, id, role);
    }
    return false;
  }

  // ---- redistributions

  double extent(const Dim& dim) const {
    const double tokens = double(mesh().sequences * unit_.model_.seq_len);
    switch (dim.axis) {
      case Axis::Token:
      case Axis::Sample:
        return tokens;
      case Axis::Visit:
        return double(unit_.model_.expert_rows(int64_t(tokens)));
      case Axis::Sequence:
        return double(mesh().sequences);
      case Axis::Choice:
        return double(unit_.model_.top_k);
      case Axis::SoftmaxPart:
        return 3.0 * double(mesh().num_ranks());
      default:
        return double(dim.extent);
    }
  }
  double bytes_of(const Value& value) const {
    double elements = 1.0;
    for (const Dim& dim : value.dims) elements *= extent(dim);
    const DType dtype = value.numbers == Numbers::Compute ? unit_.base_.compute : DType::F32;
    return elements * double(size_of(dtype));
  }

  MoveCost move(ValueId id, const MeshPlacement& from, const MeshPlacement& to, bool runs_again,
                bool read_again) const {
    if (from == to) return {};
    const auto [known, is_new] = moves_.of_value.try_emplace({id, from, to});
    if (is_new) known->second = move_both_ways(id, from, to);
    const auto& [forward_s, backward_s] = known->second;
    // B or W gathers again what it reads.
    const double times =
        1.0 + (runs_again ? 1.0 : 0.0) + (read_again && is_gather(from, to) ? 1.0 : 0.0);
    return {times * forward_s + backward_s, forward_s};
  }
  // Returns the seconds in which a value is redistributed, and in which its gradient is.
  std::array<double, 2> move_both_ways(ValueId id, const MeshPlacement& from,
                                       const MeshPlacement& to) const {
    if (!can_move(from, to, mesh())) return {kImpossible, kImpossible};
    const Value& value = graph().values[size_t(id)];
    const double bytes = bytes_of(value);
    // The parts of a softmax are exchanged tile by tile.
    const double messages = value.dims.front() == Axis::SoftmaxPart
                                ? std::max(1.0, extent(Axis::Token) / double(kLossTileTokens))
                                : 1.0;
    const double forward_s = move_seconds(bytes, from, to, mesh(), unit_.hardware_, messages);
    if (!is_matrix(value)) return {forward_s, 0.0};
    return {forward_s,
            move_seconds(bytes, dual(to), dual(from), mesh(), unit_.hardware_, messages)};
  }

  MeshPlacement made_by(const ValueUse& use, int node, size_t choice) const {
    if (use.from < 0 || !placements_[size_t(node)].empty())
      return placements_[size_t(node)][choice];
    return made(use, result_.choices[size_t(node)][choice].roles);
  }
  MeshPlacement needed_by(const ValueUse& use, int node, size_t choice) const {
    if (!placements_[size_t(node)].empty()) return placements_[size_t(node)][choice];
    return needed(use, result_.choices[size_t(node)][choice].roles);
  }

  // ---- edges

  bool runs_again(int group) const {
    if (group < 0) return false;
    StageShape layout = unit_.base_;
    layout.tp = layout.cp = layout.ep = 1;
    layout.micro_sequences = 1;
    return unit_.prices_.of(layout)[size_t(group)].again_s > 0.0;
  }
  // True if the backward pass of the op that reads a value needs the whole value again: for
  // gradients of weights, or, in attention, the keys and values of other ranks for gradients of the
  // scores.
  bool is_read_again(const ValueUse& use) const {
    if (use.to < 0) return false;
    const Op& op = graph().ops[use.reader];
    if (op.kind == OpKind::Attention) return true;
    const std::vector<ValueId> read = read_by_backward(graph(), op);
    return weight_grad_reads_input(graph(), op) &&
           std::find(read.begin(), read.end(), use.value) != read.end();
  }

  // An edge, before the placements of its ends are known.
  struct Redistribution {
    ValueUse use;
    int from = 0, to = 0;  // node
    bool again = false, read_again = false;
  };

  void add_edge(const ValueUse& use, int from, int to, bool again, bool read_again) {
    redistributions_.push_back({use, from, to, again, read_again});
    result_.problem.edges.push_back({from, to, {}});
    result_.edge_forward_s.emplace_back();
    price_edge(redistributions_.size() - 1);
  }
  void price_edge(size_t index) {
    const Redistribution& at = redistributions_[index];
    const size_t rows = result_.problem.nodes[size_t(at.from)].choices.size();
    const size_t columns = result_.problem.nodes[size_t(at.to)].choices.size();
    std::vector<MeshPlacement> needed;
    for (size_t column = 0; column < columns; ++column) {
      needed.push_back(needed_by(at.use, at.to, column));
    }
    std::vector<double>& seconds = result_.problem.edges[index].seconds;
    std::vector<double>& forward_s = result_.edge_forward_s[index];
    seconds.clear();
    forward_s.clear();
    for (size_t row = 0; row < rows; ++row) {
      const MeshPlacement made = made_by(at.use, at.from, row);
      for (size_t column = 0; column < columns; ++column) {
        const MoveCost cost = move(at.use.value, made, needed[column], at.again, at.read_again);
        seconds.push_back(cost.total_s);
        forward_s.push_back(cost.forward_s);
      }
    }
  }
  // Gives the residual stream its new placement.
  void move_streams() {
    const auto is_stream = [&](int node) {
      return std::find(streams_.begin(), streams_.end(), node) != streams_.end();
    };
    for (const int node : streams_) placements_[size_t(node)] = {stream_};
    for (size_t i = 0; i < redistributions_.size(); ++i) {
      if (is_stream(redistributions_[i].from) || is_stream(redistributions_[i].to)) price_edge(i);
    }
  }

  // False for uses inside a group, and for tokens and losses, which enter or leave a unit beside
  // the residual stream: they are small, and all ranks know them.
  bool crosses(const ValueUse& use) const {
    const bool is_edge_of_unit = use.from < 0 || use.to < 0;
    return use.from != use.to && (!is_edge_of_unit || is_matrix(graph().values[size_t(use.value)]));
  }

  void add_uses() {
    std::map<ValueId, std::vector<ValueUse>> readers;
    for (const ValueUse& use : unit_.groups_.uses()) {
      if (crosses(use)) readers[use.value].push_back(use);
    }
    for (const auto& [value, uses] : readers) {
      std::vector<ValueUse> moved;  // what reads it in another placement than the residual stream
      for (const ValueUse& use : uses) {
        const bool adds = use.to < 0 || graph().ops[use.reader].kind == OpKind::Add;
        if (!adds && is_matrix(graph().values[size_t(value)])) {
          moved.push_back(use);
        } else {
          add_edge(use, node_from(use), node_to(use), runs_again(use.to), is_read_again(use));
        }
      }
      if (moved.size() > 1) {
        add_shared(moved);
      } else if (moved.size() == 1) {
        const ValueUse& use = moved.front();
        add_edge(use, node_from(use), node_to(use), runs_again(use.to), is_read_again(use));
      }
    }
  }

  // A value is redistributed once for all ops that read it alike, so it has a node of its own.
  void add_shared(const std::vector<ValueUse>& uses) {
    std::vector<MeshPlacement> placements;
    for (const DimPlacement outer :
         {DimPlacement::Rows, DimPlacement::Invariant, DimPlacement::Replicate}) {
      for (const DimPlacement inner :
           {DimPlacement::Rows, DimPlacement::Invariant, DimPlacement::Replicate}) {
        placements.push_back({outer, inner});
      }
    }
    const ValueUse& first = uses.front();
    const int shared = add_value(graph().values[size_t(first.value)].name, placements);
    const bool again =
        std::any_of(uses.begin(), uses.end(), [&](const ValueUse& u) { return runs_again(u.to); });
    const bool read_again =
        std::any_of(uses.begin(), uses.end(), [&](const ValueUse& u) { return is_read_again(u); });
    add_edge(first, node_from(first), shared, again, read_again);
    for (const ValueUse& use : uses) {
      add_edge(use, shared, node_to(use), runs_again(use.to), is_read_again(use));
    }
  }

  int node_from(const ValueUse& use) const {
    return use.from < 0 ? 0 : result_.node_of_group[size_t(use.from)];
  }
  int node_to(const ValueUse& use) {
    return use.to < 0 ? add_stream("output") : result_.node_of_group[size_t(use.to)];
  }

  PricedUnit& unit_;
  const UnitSetting& setting_;
  MeshPlacement stream_;
  PricedUnit::Moves& moves_;
  UnitProblem result_;
  std::vector<std::vector<MeshPlacement>> placements_;  // [node] of values; empty for groups
  std::vector<int> streams_;                            // nodes of the residual stream
  std::vector<Redistribution> redistributions_;         // [edge]
};

PricedUnit::PricedUnit(const Graph& stated, int64_t layer, const ModelSpec& model,
                       const StageShape& base, const Hardware& hardware)
    : model_(model),
      base_(base),
      hardware_(hardware),
      groups_(stated, base),
      prices_(stated, layer, model, groups_, hardware) {}

PricedUnit::Moves& PricedUnit::moves_on(const StageMesh& mesh) {
  if (moves_.mesh != mesh) moves_ = {mesh, {}, {}};
  return moves_;
}

UnitProblem PricedUnit::problem(const UnitSetting& setting) {
  return std::move(problems(setting, {setting.stream}).front());
}

std::vector<UnitProblem> PricedUnit::problems(const UnitSetting& setting,
                                              const std::vector<MeshPlacement>& streams,
                                              double most_s) {
  UnitProblemBuilder builder(*this, setting);
  if (builder.add_groups() > most_s) return {};
  return builder.with_streams(streams);
}

double PricedUnit::least_seconds_of_groups(const UnitSetting& setting) {
  return UnitProblemBuilder(*this, setting).add_groups();
}

}  // namespace trireme
