#pragma once

#include <string>
#include <vector>

#include "program/rank_plan.h"
#include "schema/program.h"

namespace trireme {

// The facts about a rank's chunks that the passes below need.
struct DataParallelShape {
  int zero_level = 0;
  bool params_in_file = false;
  bool post_validates = false;
  bool joins_directions_first = false;
  int num_unit_slots = 2;  // gathered units in memory at once: one in use, the others in transfer
  std::vector<int> num_units;  // [chunk]
  // [chunk][unit] for messages; may be empty
  std::vector<std::vector<std::string>> unit_names = {};
  // [chunk] units that are gathered and reduced together
  std::vector<std::vector<UnitGroup>> groups;
  std::vector<int> num_pieces;                    // [chunk] pieces of optimizer state in a file
  std::vector<std::vector<bool>> kept_gathered;   // [chunk][unit] stays gathered for the whole step
  std::vector<std::vector<bool>> w_reads_params;  // [chunk][unit] W reads the unit's parameters

  bool shards_grads() const { return zero_level >= 2; }
  bool shards_params() const { return zero_level >= 3; }
  bool gathers_params() const { return shards_params() || params_in_file; }
  bool gathers_updated() const { return zero_level == 1 || zero_level == 2; }
  int group_of(int chunk, int unit) const;
  // Returns the slot of gathered units that a unit's group uses.
  int slot_of(int chunk, int unit) const;
};
DataParallelShape data_parallel_shape(const RankPlan& rank);

// Returns the micro-batches of the step that belong to the rank with this index, if dp ranks share
// them. `rank` says how many lanes each has.
MicrobatchMap microbatches_of(const RankPlan& rank, const Schedule& schedule, int dp, int index);

// Inserts ReduceGrad where a unit's gradient is complete. Levels 0 and 1: after the W of the last
// micro-batch and the joins that follow it. This W is cut into units, so that the transfer of one
// unit runs while the next unit is computed. Levels 2 and 3: after every W; its leaf is reduced
// before it is summed, so the sum over micro-batches adds reduced gradients. Keeps the order of F,
// B and W. Needs gradient slots (accumulate.h).
Program add_reduce_grad(const Program& program, const DataParallelShape& shape);
// Levels 0 and 1: appends the reductions of all units to the program, after the two directions of a
// stage were joined.
void append_reduce_grad(Program& program, const DataParallelShape& shape);

// Level 3: cuts F, B, W and BW into units, gathers each unit as soon as a slot is free, and
// releases it after its use. Parameters in a file are fetched one use before they are gathered.
// Levels 1 and 2: gathers what Step has updated and writes it to the file if it is offloaded. Keeps
// the order of everything else.
// there. Preserves the order of all else.
Program add_unshard(const Program& program, const DataParallelShape& shape);

}  // namespace trireme
