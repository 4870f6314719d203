#pragma once

#include <optional>
#include <vector>

#include "autoparallel/choice_problem.h"

namespace trireme {

// Solves a choice problem exactly by dynamic programming: it removes one node after the other, the
// one that joins the fewest combinations of its neighbours first, and keeps for each combination
// what no other beats. On a chain or a tree this is the usual dynamic program; on any other graph
// the work grows with its treewidth. Deterministic.

// Every assignment that no other one beats or equals in seconds, state and activations, with the
// fewest seconds first. Assignments of equal cost are one. Those above the limit are left out.
std::vector<Assignment> best_tradeoffs(const ChoiceProblem& problem, const ChoiceLimit& limit = {});

// The assignment of the fewest seconds that keeps the limit, or nullopt if none does.
std::optional<Assignment> least_seconds(const ChoiceProblem& problem, const ChoiceLimit& limit);

// The combinations that the largest table of the elimination has: the work that is ahead.
double largest_table(const ChoiceProblem& problem);

}  // namespace trireme
