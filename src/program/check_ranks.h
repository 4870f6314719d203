#pragma once

#include <vector>

#include "program/check.h"
#include "program/rank_plan.h"

namespace trireme {

// Problems in the programs of a mesh after all passes. The rules of check() must hold for the
// programs with the data-parallel passes undone (fold_units), and those of check_data_parallel.h
// for each rank. In addition:
// units   the parts of an action are in order and contiguous
// peers   ranks of one stage run the same actions, so that collectives over dp, tp and cp meet in
// the same order, and blocking transfers cannot hang if they hang in no pipeline
// data    every micro-batch of the step belongs to one rank, at its place in the sum
// tied    both holders of a tied table join its gradients once, after everything except Step
// ahead   actions of the next step that run before Validate can be dropped (lookahead.h)
// pairs   what runs beside the next action is an F before a BW of another chunk (pairs.h)
// sum     in layout mode every gradient is one binary tree over the step's micro-batches
// (check_sum_tree.h)
// directions  both holders of a stage join the gradients of the two directions (DualPipe)
// lanes   a rank with several lanes takes every part for each of them in turn (fold_lanes.h)
// `schedule` is that of one pipeline before data parallelism. `ranks` has rising positions: the
// ranks with index 0 on every axis but pp, and any others. Ranks that are missing are assumed to
// have the micro-batches of their place. Problem::rank is the position in the mesh.
std::vector<Problem> check_ranks(const Schedule& schedule, const Mesh& mesh,
                                 const std::vector<RankPlan>& ranks, AccumulateMode mode);

// Checks the rules "peers" and "data" for one more rank, beside the rank of its stage that was
// already checked.
std::vector<Problem> check_peer(const Schedule& schedule, const Mesh& mesh, const RankPlan& rank,
                                const RankPlan& of_stage);

// Returns the message and the programs around the marked position.
std::string explain(const Schedule& schedule, const std::vector<RankPlan>& ranks,
                    const Problem& problem);

}  // namespace trireme
