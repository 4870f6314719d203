#pragma once

#include <cstdint>
#include <vector>

#include "spec/program.h"

namespace trireme {

// How the weight gradients of a rank's micro-batches become one sum. Preserves the order of F, B
// and W; sets grad_slot and accumulate of each W, BW and FB and inserts SumGrad.
enum class AccumulateMode {
  Fixed,   // the first W of a chunk overwrites slot 0, later ones add: sums in program order
  Layout,  // leaves summed along the canonical tree below: the same bits for every order and layout
};

// Global index of each local micro-batch, and how many there are on all ranks. The canonical tree
// splits [0, 2^k) in halves down to single indices; what lies beyond num_global is skipped, never
// added as zero.
struct MicrobatchMap {
  std::vector<int64_t> global_of;  // [local micro-batch]
  int64_t num_global = 0;

  // Data-parallel rank r holds r*m .. r*m+m-1: gradients are summed locally first.
  static MicrobatchMap contiguous(int num_microbatches, int dp = 1, int dp_rank = 0);
  // The same of each half of the micro-batches, which are those of the two directions (DualPipe).
  static MicrobatchMap contiguous_halves(int num_microbatches, int dp, int dp_rank);
  // Data-parallel rank r holds r, dp+r, 2dp+r, ...
  static MicrobatchMap strided(int num_microbatches, int dp, int dp_rank);
};

// The sum of all leaves in [first, first + 2^level) below num_global, at the end of the program.
struct GradPartial {
  int16_t slot = 0;
  int64_t first = 0;
  int level = 0;

  friend bool operator==(const GradPartial&, const GradPartial&) = default;
};

struct ChunkGradient {
  int num_slots = 0;  // the fewest that this order of W allows
  // What could not be joined on this rank, in ascending order of `first`. One entry, in slot 0,
  // where the rank holds every leaf below a node of the tree; the caller joins the rest across
  // ranks.
  std::vector<GradPartial> partials;
};

struct Accumulated {
  Program program;
  std::vector<ChunkGradient> chunks;  // [chunk]
};

// Where each micro-batch is reduced across ranks as soon as it appears (strided maps), the tree
// goes over what has been reduced: pass contiguous(num_microbatches) and put the ReduceGrad after
// each W.
Accumulated accumulate(const Program& program, int num_chunks, AccumulateMode mode,
                       const MicrobatchMap& map);

// Ends the program with the optimizer's step.
void append_step(Program& program);
// Behind Step, which then need not wait for the other ranks.
void append_validate(Program& program);

}  // namespace trireme
