#include "autoparallel/choice_problem.h"

#include <algorithm>

namespace trireme {

ChoiceCost& ChoiceCost::operator+=(const ChoiceCost& other) {
  seconds += other.seconds;
  state_bytes += other.state_bytes;
  activation_bytes += other.activation_bytes;
  return *this;
}

bool is_no_worse(const ChoiceCost& a, const ChoiceCost& b) {
  return a.seconds <= b.seconds && a.state_bytes <= b.state_bytes &&
         a.activation_bytes <= b.activation_bytes;
}

double least_seconds_of_nodes(const ChoiceProblem& problem) {
  double sum = 0.0;
  for (const ChoiceNode& node : problem.nodes) {
    double least = kImpossible;
    for (const ChoiceCost& cost : node.choices) least = std::min(least, cost.seconds);
    sum += least;
  }
  return sum;
}

ChoiceCost cost_of(const ChoiceProblem& problem, const std::vector<int>& choices) {
  ChoiceCost cost;
  for (size_t node = 0; node < problem.nodes.size(); ++node) {
    cost += problem.nodes[node].choices[size_t(choices[node])];
  }
  for (const ChoiceEdge& edge : problem.edges) {
    const size_t columns = problem.nodes[size_t(edge.to)].choices.size();
    cost.seconds += edge.seconds[size_t(choices[size_t(edge.from)]) * columns +
                                 size_t(choices[size_t(edge.to)])];
  }
  return cost;
}

}  // namespace trireme
