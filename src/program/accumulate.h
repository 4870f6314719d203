#pragma once

#include <cstdint>
#include <vector>

#include "schema/program.h"

namespace trireme {

// How a rank adds the weight gradients of its micro-batches. The pass keeps the order of F, B and
// W, sets grad_slot and accumulate of each W, BW and FB, and inserts SumGrad.
enum class AccumulateMode {
  Fixed,   // the first W of a chunk overwrites slot 0, later ones add, in program order
  Layout,  // adds along the canonical tree below: the same bits for every order and layout
};

// Global index of each local micro-batch, and the number of micro-batches on all ranks. The
// canonical tree splits [0, 2^k) in halves down to single indices. Indices from num_global on are
// skipped, never added as zero.
struct MicrobatchMap {
  std::vector<int64_t> global_of;  // [local micro-batch]
  int64_t num_global = 0;

  // Whether the rank has all micro-batches of the step, so that no other rank adds to its sums.
  bool is_whole() const { return int64_t(global_of.size()) == num_global; }
  // Data-parallel rank r holds r*m .. r*m+m-1: gradients are summed locally first.
  static MicrobatchMap contiguous(int num_microbatches, int dp = 1, int dp_rank = 0);
  // Like contiguous for each half of the micro-batches; each half is one direction (DualPipe).
  static MicrobatchMap contiguous_halves(int num_microbatches, int dp, int dp_rank);
  // Data-parallel rank r holds r, dp+r, 2dp+r, ...
  static MicrobatchMap strided(int num_microbatches, int dp, int dp_rank);
};

// The sum at the end of the program of all leaves in [first, first + 2^level) below num_global.
struct GradPartial {
  int16_t slot = 0;
  int64_t first = 0;
  int level = 0;

  friend bool operator==(const GradPartial&, const GradPartial&) = default;
};

struct ChunkGradient {
  int num_slots = 0;  // the minimum for this order of W
  // Sums that could not be joined on this rank, sorted by `first`. If the rank holds every leaf
  // below a node of the tree there is one entry, in slot 0. The caller joins the rest across ranks.
  std::vector<GradPartial> partials;
};

struct Accumulated {
  Program program;
  std::vector<ChunkGradient> chunks;  // [chunk]
};

// With strided maps each micro-batch is reduced across ranks as soon as it is computed, and the
// tree adds the reduced gradients: pass contiguous(num_microbatches) and put a ReduceGrad after
// each W.
Accumulated accumulate(const Program& program, int num_chunks, AccumulateMode mode,
                       const MicrobatchMap& map);

// Appends the optimizer's Step.
void append_step(Program& program);
// Appends Validate. Step then need not wait for the other ranks.
void append_validate(Program& program);

}  // namespace trireme
