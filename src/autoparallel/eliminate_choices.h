#pragma once

#include <optional>
#include <vector>

#include "autoparallel/choice_problem.h"

namespace trireme {

// Solves a choice problem exactly by dynamic programming: it removes one node after the other,
// first the one whose neighbours have the fewest combinations of choices. For each combination it
// keeps the costs that no other cost beats. On a chain or a tree this is the usual dynamic program;
// on any other graph the work grows with its treewidth. The result is deterministic.

// Returns every assignment that keeps the limit and that no other one beats in seconds, state and
// activations, the fewest seconds first. Of several assignments of equal cost it returns one.
std::vector<Assignment> best_tradeoffs(const ChoiceProblem& problem, const ChoiceLimit& limit = {});

// Returns the assignment of the fewest seconds that keeps the limit, or nullopt if none does.
std::optional<Assignment> least_seconds(const ChoiceProblem& problem, const ChoiceLimit& limit);

// Returns the number of combinations in the largest table of the elimination, before it runs.
double largest_table(const ChoiceProblem& problem);

}  // namespace trireme
