#pragma once

#include <vector>

#include "program/check.h"
#include "program/rank_plan.h"

namespace trireme {

// What is wrong with the programs of a mesh once every pass has run: the rules of check() hold for
// what is left when the passes of data parallelism are undone (fold_units), those of
// check_data_parallel.h for each rank, and
//   units   the parts of an action come in order and together
//   peers   ranks of one stage run the same actions, so that collectives over dp, tp and cp meet in
//           one order and blocking transfers hang nowhere if they hang in no pipeline
//   data    every micro-batch of the step is some rank's, once, and where the sum wants it
//   tied    both holders of a tied table join its gradients, once, behind all else but Step
//   ahead   what runs for the next step before Validate can be dropped (lookahead.h)
//   sum     in layout mode every gradient is one binary tree over the step's micro-batches
//           (check_sum_tree.h)
//   directions  so do both holders of a stage, each for its direction (DualPipe)
// `schedule`: of one pipeline, before data parallelism. `ranks`, rising: those with index 0 on
// every axis but pp, and any others; ranks that are not among them are taken to have the
// micro-batches of their place. Problem::rank is the position in the mesh.
std::vector<Problem> check_ranks(const Schedule& schedule, const Mesh& mesh,
                                 const std::vector<RankPlan>& ranks, AccumulateMode mode);

// The rules "peers" and "data" for one more rank beside the rank of its stage that has been
// checked.
std::vector<Problem> check_peer(const Schedule& schedule, const Mesh& mesh, const RankPlan& rank,
                                const RankPlan& of_stage);

// The message, and the programs around the spot.
std::string explain(const Schedule& schedule, const std::vector<RankPlan>& ranks,
                    const Problem& problem);

}  // namespace trireme
