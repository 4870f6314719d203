#pragma once

#include <limits>
#include <string>
#include <vector>

namespace trireme {

// The cost of a choice on the rank where it is highest: seconds of a micro-batch, bytes that do not
// depend on the micro-batches (state), and bytes that each micro-batch in flight needs
// (activations).
struct ChoiceCost {
  double seconds = 0.0;
  double state_bytes = 0.0;
  double activation_bytes = 0.0;

  ChoiceCost& operator+=(const ChoiceCost& other);
  friend ChoiceCost operator+(ChoiceCost a, const ChoiceCost& b) { return a += b; }
  friend bool operator==(const ChoiceCost&, const ChoiceCost&) = default;
};
// True if `a` costs at most as much as `b` in seconds, state and activations.
bool is_no_worse(const ChoiceCost& a, const ChoiceCost& b);

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

// A node takes exactly one of its choices, at least one of which exists.
struct ChoiceNode {
  std::string name;
  std::vector<ChoiceCost> choices;
};

// Seconds of every pair of choices of two different nodes, row by row: [choice of `from`, choice of
// `to`]; kImpossible if the two choices exclude each other.
struct ChoiceEdge {
  int from = 0;
  int to = 0;
  std::vector<double> seconds;
};

// The integer program of the search inside a stage (Zheng et al. 2022, section 4): every node takes
// one choice, and the sum of the seconds of all nodes and edges is minimized.
struct ChoiceProblem {
  std::vector<ChoiceNode> nodes;
  std::vector<ChoiceEdge> edges;
};

// Limits of an assignment: state plus `in_flight` times the activations need at most `bytes`, and
// all nodes and edges together take at most `seconds`.
struct ChoiceLimit {
  double bytes = kImpossible;
  double in_flight = 1.0;
  double seconds = kImpossible;
  // Partial costs that differ by a smaller share of their bytes count as equal in bytes.
  double same_bytes = 0.0;

  double bytes_of(const ChoiceCost& cost) const {
    return cost.state_bytes + in_flight * cost.activation_bytes;
  }
};

struct Assignment {
  std::vector<int> choices;  // [node]
  ChoiceCost cost;
};

// Returns the sum over the nodes of the seconds of their fastest choices. No assignment takes less.
double least_seconds_of_nodes(const ChoiceProblem& problem);

// Returns the cost of an assignment: the sum over nodes and edges.
ChoiceCost cost_of(const ChoiceProblem& problem, const std::vector<int>& choices);

}  // namespace trireme
