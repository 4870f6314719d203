#pragma once

#include <vector>

#include "memory/chunk_tables.h"
#include "memory/memory_plan.h"
#include "program/accumulate.h"
#include "program/lanes.h"
#include "schema/mesh.h"
#include "schema/norm_sum.h"
#include "schema/program.h"

namespace trireme {

// How a chunk of a rank is connected to its neighbours.
struct ChunkPlace {
  int stage = 0;
  // Chunks of the neighbouring stages if they are on this rank; -1: on another rank, or no
  // neighbour.
  int previous_chunk = -1;
  int next_chunk = -1;
};

// The largest attention logits that the ranks tell each other in Step: one fp32 for every head of
// every layer of the model and every module behind it. None unless StageShape::reports_logits.
struct ReportedLogits {
  int64_t layers = 0;
  int64_t heads = 0;  // of a layer
  int64_t count() const { return layers * heads; }
};

// Everything that one rank executes and holds; pure data.
struct RankPlan {
  int position = 0;  // in the mesh
  MeshCoords coords;
  StageShape shape;
  std::vector<ChunkTables> chunks;
  std::vector<ChunkPlace> places;  // [chunk]
  Program program;
  Program eval_program;        // forward only: one micro-batch through every chunk
  MicrobatchMap microbatches;  // local micro-batch -> global index within the step
  Lanes lanes;                 // which parts of the batch they are of
  NormSum norm_sum = NormSum::Chunks;
  int64_t num_norm_words = 0;  // of the whole model
  // Visits to the experts of each layer, and dropped visits, of the whole model.
  int64_t num_expert_loads = 0;
  int64_t num_router_losses = 0;  // of the whole model: two per layer
  bool has_ahead_losses = false;  // the modules of multi-token prediction have losses of their own
  ReportedLogits logits;
  ZeroShape zero;
  ZeroShape expert_zero;  // for experts, over the ranks that hold the same experts
  int num_unit_slots = 2;
  // True if the two directions of a stage (DualPipe) are summed before data-parallel ranks are.
  bool joins_directions_first = false;
  bool post_validates = false;  // Validate waits for the norm, so Step does not have to
  int num_ahead = 0;  // leading actions of the next step that may run before Validate (lookahead.h)
  // Buffer for what this rank writes to a checkpoint while training continues; 0: none.
  int64_t snapshot_bytes = 0;
  MemoryPlan memory;
};

// What the ranks tell each other in Step, as 64-bit words that one rank fills and the others leave
// zero: the sum of the losses and the valid tokens of every micro-batch and context-parallel rank,
// whether to stop, the sum of the losses of the modules that look ahead, and the partial sums of
// the gradient's norm. The experts' visits of every layer (Route::load_E), the router's losses
// (RouterLosses) and an exact norm are integers, to which several ranks may add.
struct Exchange {
  int64_t losses = 0;
  int64_t valid_tokens = 0;
  int64_t stop = 0;
  int64_t expert_loads = 0;
  int64_t router_losses = 0;
  int64_t ahead_losses = 0;
  int64_t norm = 0;
  int64_t num_words = 0;
};
constexpr Exchange exchange_of(int64_t num_losses, int64_t num_expert_loads,
                               int64_t num_router_losses, int64_t num_ahead_losses,
                               int64_t num_norm_words) {
  const int64_t stop = 2 * num_losses, loads = stop + 1, routers = loads + num_expert_loads;
  const int64_t ahead = routers + num_router_losses, norm = ahead + num_ahead_losses;
  return {0, num_losses, stop, loads, routers, ahead, norm, norm + num_norm_words};
}
inline Exchange exchange_of(const RankPlan& rank) {
  const int64_t num_losses = rank.microbatches.num_global * rank.shape.leaves * rank.shape.cp;
  return exchange_of(num_losses, rank.num_expert_loads, rank.num_router_losses,
                     rank.has_ahead_losses ? num_losses : 0, rank.num_norm_words);
}
inline int64_t exchange_words(const RankPlan& rank) { return exchange_of(rank).num_words; }
// Bytes of the words of one step, and of the largest logits, of which the ranks take the maximum.
inline int64_t exchange_bytes(const RankPlan& rank) {
  return exchange_words(rank) * size_of(DType::I64) + rank.logits.count() * size_of(DType::F32);
}

}  // namespace trireme
