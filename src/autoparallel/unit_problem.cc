#include "autoparallel/unit_problem.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "graph/backward_reads.h"

namespace trireme {
namespace {

// True if the backward pass of the op that reads a value needs the whole value again: for gradients
// of weights, or, in attention, the keys and values of other ranks for gradients of the scores.
bool is_read_again(const Graph& graph, const ValueUse& use) {
  if (use.to < 0) return false;
  const Op& op = graph.ops[use.reader];
  if (op.kind == OpKind::Attention) return true;
  const std::vector<ValueId> read = read_by_backward(graph, op);
  return weight_grad_reads_input(graph, op) &&
         std::find(read.begin(), read.end(), use.value) != read.end();
}

// False for uses inside a group, and for tokens and losses, which enter or leave a unit beside the
// residual stream: they are small, and all ranks know them.
bool crosses(const Graph& graph, const ValueUse& use) {
  const bool is_edge_of_unit = use.from < 0 || use.to < 0;
  return use.from != use.to && (!is_edge_of_unit || is_matrix(graph.values[size_t(use.value)]));
}

// Returns how a value may lie that several groups read.
std::vector<MeshPlacement> shared_placements() {
  constexpr std::array kPlacements = {DimPlacement::Rows, DimPlacement::Invariant,
                                      DimPlacement::Replicate};
  std::vector<MeshPlacement> placements;
  for (const DimPlacement outer : kPlacements) {
    for (const DimPlacement inner : kPlacements) placements.push_back({outer, inner});
  }
  return placements;
}

// Builds the problem of a unit for one setting: first the nodes of the groups, then the values
// between them.
class UnitProblemBuilder {
 public:
  UnitProblemBuilder(PricedUnit& unit, const UnitSetting& setting)
      : unit_(unit),
        setting_(setting),
        stream_(setting.stream),
        moves_(unit.moves_on(setting.mesh)) {}

  // Adds the groups, whose choices do not depend on the residual stream. Returns the seconds of
  // their fastest choices.
  double add_groups() {
    add_stream("input");
    for (size_t group = 0; group < unit_.groups().groups().size(); ++group) add_group(group);
    return least_seconds_of_nodes(result_.problem);
  }
  // Adds what is between the groups, and returns the problem for each placement of the stream.
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
  const Graph& graph() const { return unit_.groups().graph(); }

  // ---- nodes

  int add_node(std::string name) {
    result_.problem.nodes.push_back({std::move(name), {}});
    result_.choices.emplace_back();
    result_.choice_of_roles.emplace_back();
    placements_.emplace_back();
    return int(result_.problem.nodes.size()) - 1;
  }
  void add_group(size_t group) {
    result_.node_of_group.push_back(add_node(unit_.groups().groups()[group].name));
    GroupChoices found = group_choices(unit_, setting_, group);
    result_.problem.nodes.back().choices = std::move(found.costs);
    result_.choices.back() = std::move(found.choices);
    result_.choice_of_roles.back() = std::move(found.choice_of_roles);
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

  int node_from(const ValueUse& use) const {
    return use.from < 0 ? 0 : result_.node_of_group[size_t(use.from)];
  }
  int node_to(const ValueUse& use) {
    return use.to < 0 ? add_stream("output") : result_.node_of_group[size_t(use.to)];
  }
  MeshPlacement made_by(const ValueUse& use, int node, size_t choice) const {
    if (use.from < 0 || !placements_[size_t(node)].empty())
      return placements_[size_t(node)][choice];
    return unit_.groups().made(use, result_.choices[size_t(node)][choice].roles);
  }
  MeshPlacement needed_by(const ValueUse& use, int node, size_t choice) const {
    if (!placements_[size_t(node)].empty()) return placements_[size_t(node)][choice];
    return unit_.groups().needed(use, result_.choices[size_t(node)][choice].roles);
  }

  // ---- edges

  bool runs_again(int group) const {
    if (group < 0) return false;
    StageShape layout = unit_.base_with(setting_.recompute);
    layout.tp = layout.cp = layout.ep = 1;
    layout.micro_sequences = 1;
    return unit_.prices_on(layout)[size_t(group)].again_s > 0.0;
  }
  MoveAgain again_of(const ValueUse& use) const {
    return {runs_again(use.to), is_read_again(graph(), use)};
  }

  // An edge, before the placements of its ends are known.
  struct ValueEdge {
    ValueUse use;
    int from = 0, to = 0;  // node
    MoveAgain again;
  };

  void add_edge(const ValueUse& use, int from, int to, const MoveAgain& again) {
    edges_.push_back({use, from, to, again});
    result_.problem.edges.push_back({from, to, {}});
    result_.edge_forward_s.emplace_back();
    price_edge(edges_.size() - 1);
  }
  void add_edge(const ValueUse& use) {
    const int from = node_from(use), to = node_to(use);
    add_edge(use, from, to, again_of(use));
  }
  void price_edge(size_t index) {
    const ValueEdge& at = edges_[index];
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
        const MoveCost cost = moves_.cost(at.use.value, made, needed[column], at.again);
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
    for (size_t i = 0; i < edges_.size(); ++i) {
      if (is_stream(edges_[i].from) || is_stream(edges_[i].to)) price_edge(i);
    }
  }

  void add_uses() {
    std::map<ValueId, std::vector<ValueUse>> readers;
    for (const ValueUse& use : unit_.groups().uses()) {
      if (crosses(graph(), use)) readers[use.value].push_back(use);
    }
    for (const auto& [value, uses] : readers) {
      std::vector<ValueUse> moved;  // what reads it in another placement than the residual stream
      for (const ValueUse& use : uses) {
        const bool adds = use.to < 0 || graph().ops[use.reader].kind == OpKind::Add;
        if (!adds && is_matrix(graph().values[size_t(value)])) {
          moved.push_back(use);
        } else {
          add_edge(use);
        }
      }
      if (moved.size() > 1) {
        add_shared(moved);
      } else if (moved.size() == 1) {
        add_edge(moved.front());
      }
    }
  }

  // A value is redistributed once for all ops that read it alike, so it has a node of its own.
  void add_shared(const std::vector<ValueUse>& uses) {
    const ValueUse& first = uses.front();
    const int shared = add_value(graph().values[size_t(first.value)].name, shared_placements());
    MoveAgain of_any;
    for (const ValueUse& use : uses) {
      const MoveAgain again = again_of(use);
      of_any.runs_again |= again.runs_again;
      of_any.read_again |= again.read_again;
    }
    add_edge(first, node_from(first), shared, of_any);
    for (const ValueUse& use : uses) add_edge(use, shared, node_to(use), again_of(use));
  }

  PricedUnit& unit_;
  const UnitSetting& setting_;
  MeshPlacement stream_;
  UnitMoves& moves_;
  UnitProblem result_;
  std::vector<std::vector<MeshPlacement>> placements_;  // [node] of values; empty for groups
  std::vector<int> streams_;                            // nodes of the residual stream
  std::vector<ValueEdge> edges_;                        // [edge]
};

}  // namespace

UnitProblem unit_problem(PricedUnit& unit, const UnitSetting& setting) {
  return std::move(unit_problems(unit, setting, {setting.stream}).front());
}

std::vector<UnitProblem> unit_problems(PricedUnit& unit, const UnitSetting& setting,
                                       const std::vector<MeshPlacement>& streams, double most_s) {
  UnitProblemBuilder builder(unit, setting);
  if (builder.add_groups() > most_s) return {};
  return builder.with_streams(streams);
}

double least_seconds_of_groups(PricedUnit& unit, const UnitSetting& setting) {
  return UnitProblemBuilder(unit, setting).add_groups();
}

}  // namespace trireme
