#pragma once

#include <string>
#include <vector>

#include "program/rank_plan.h"
#include "spec/program.h"

namespace trireme {

// What the passes below must know of a rank's chunks.
struct DataParallelShape {
  int zero_level = 0;
  bool params_in_file = false;
  bool post_validates = false;
  bool joins_directions_first = false;
  int num_unit_slots = 2;  // gathered units alive at one time: one in use, the others on their way
  std::vector<int> num_units;                             // [chunk]
  std::vector<std::vector<std::string>> unit_names = {};  // [chunk][unit] for messages; or empty
  std::vector<std::vector<UnitGroup>> groups;             // [chunk] units that are handled as one
  std::vector<int> num_pieces;                    // [chunk] of the optimizer's state in a file
  std::vector<std::vector<bool>> kept_gathered;   // [chunk][unit] gathered for the whole step
  std::vector<std::vector<bool>> w_reads_params;  // [chunk][unit] W reads the unit's parameters

  bool shards_grads() const { return zero_level >= 2; }
  bool shards_params() const { return zero_level >= 3; }
  bool gathers_params() const { return shards_params() || params_in_file; }
  bool gathers_updated() const { return zero_level == 1 || zero_level == 2; }
  int group_of(int chunk, int unit) const;
  // Of the gathered units' slots, the one that a unit's group takes.
  int slot_of(int chunk, int unit) const;
};
DataParallelShape data_parallel_shape(const RankPlan& rank);

// Which micro-batches of the step are a rank's own, where dp ranks share them.
MicrobatchMap microbatches_of(const RankPlan& rank, const Schedule& schedule, int dp, int index);

// F&BW pairs become F, then BW: a rank with one compute stream runs them one after the other.
Program unpair(const Program& program);

// Inserts ReduceGrad wherever a unit's gradient is complete: levels 0 and 1 after the last
// micro-batch's W (and the joins behind it), which is cut into units so that the transfers of one
// unit run while the next is computed; levels 2 and 3 after every W, whose leaf is reduced before
// it is summed: the sum over micro-batches then goes over what has been reduced. Preserves the
// order of F, B and W. Needs gradient slots (accumulate.h).
Program add_reduce_grad(const Program& program, const DataParallelShape& shape);
// Levels 0 and 1: the reductions of all units at the program's end, behind the join of the two
// directions of a stage.
void append_reduce_grad(Program& program, const DataParallelShape& shape);

// Level 3: cuts F, B, W and BW into units, gathers each before its use, as early as a slot is free,
// and gives it up behind. Parameters in a file are fetched likewise, one use before they are
// gathered. Levels 1 and 2: gathers what Step has updated, and brings it to the file where it lies
// there. Preserves the order of all else.
Program add_unshard(const Program& program, const DataParallelShape& shape);

}  // namespace trireme
