#include "autoparallel/choice_problem.h"

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
