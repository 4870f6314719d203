#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/op_half.h"
#include "memory/stage_tables.h"
#include "memory/stage_units.h"
#include "models/leaf_sums.h"
#include "models/op_clock.h"
#include "nn/op_body.h"
#include "nn/router_losses.h"

namespace trireme {

// The memory of a stage. The pointers outlive the stage.
struct StageMemory {
  // [unit]: where the chunk's table would begin for the unit's tensors to lie where they do. The
  // same for all units where the table lies in one piece.
  std::vector<void*> unit_params;
  void* scratch = nullptr;
  std::vector<std::vector<void*>> grad_slots;  // [slot][unit], likewise
  std::vector<void*> saved_slots;
  std::vector<void*> weight_grad_slots;  // empty: B and W are one action
};

// The slots that one action works on.
struct StageSlots {
  int saved = 0;
  int weight_grad = 0;
  int grad = 0;
  Write write = Write::Overwrite;
};

// Which part of the backward pass runs: all of it (BW), the gradient of the input (B), or those of
// the weights (W).
enum class Backward : uint8_t { Whole, Input, Weight };

// A consecutive part of a model, bound to planned memory before step 1: for each unit the bodies of
// its ops and the order in which F, B, W and BW call them. Nothing is allocated or looked up in
// these calls.
class Stage {
 public:
  Stage(const ModelSpec& model, const StageSpec& stage, const StageShape& shape,
        const StageTables& tables, const StageMemory& memory, uint64_t seed);

  // A unit at a time: the embedding, each layer, the head, in the order of F. Parameters of a unit
  // lie together, so a unit is what data parallelism unshards and reduces.
  int num_units() const { return int(units_.size()); }
  void forward_unit(Ctx& ctx, const MicrobatchInfo& info, int saved_slot, int unit) const;
  // The whole pass runs B and W of one op after the other, so that the gradients between layers
  // live in one layer's scratch.
  void backward_unit(Ctx& ctx, const MicrobatchInfo& info, const StageSlots& slots, int unit,
                     Backward half) const;

  // Counts the time of every op in steps of training until another clock is set, or none. Some
  // 50 ns a call. The clock has room for num_ops() ops and outlives its use here.
  void set_clock(OpClock* clock) { clock_ = clock; }
  size_t num_ops() const { return units_.back().first_op + units_.back().ops.size(); }

  // These tensors are sent between stages.
  MatrixRef input_TC(int saved_slot) const;
  MatrixRef output_TC(int saved_slot) const;
  MatrixRef input_grad_TC(int weight_grad_slot) const;
  MatrixRef output_grad_TC(int weight_grad_slot) const;

  // Inputs and outputs of a micro-batch; empty where the stage has no embedding or no head.
  std::span<int32_t> tokens(int saved_slot) const;
  std::span<int32_t> targets(int saved_slot) const;
  std::span<const float> losses(int saved_slot) const;
  // The same for the module that looks `ahead` positions ahead, from 1 to mtp_depth(); empty if the
  // stage has no head.
  std::span<int32_t> tokens_ahead(int64_t ahead, int saved_slot) const;
  std::span<int32_t> targets_ahead(int64_t ahead, int saved_slot) const;
  std::span<const float> losses_ahead(int64_t ahead, int saved_slot) const;
  int64_t mtp_depth() const { return model_.mtp_depth; }
  // Where the documents of a micro-batch lie, to be filled like the tokens; absent where a sequence
  // is one document.
  Documents documents(int saved_slot) const {
    return documents_of(memory_of({.saved = saved_slot}, 0));
  }
  // After a forward pass without training: 1 for a token that was predicted (CrossEntropyArgs).
  std::span<const float> hits(int saved_slot) const;

  // The routes are what the router of a unit says. The head has one router and one attention for
  // each module that looks ahead, its `blocks`; a layer has one or none.
  int num_routers(int unit) const;
  Route route(int saved_slot, int unit, int block = 0) const;
  // Visits of every expert, and those that were dropped.
  std::span<const int32_t> expert_load(int saved_slot, int unit, int block = 0) const;
  // The largest attention logit of every head of this rank, for each attention that reports it.
  int num_largest_logits(int unit) const;
  std::span<const float> largest_logits(int saved_slot, int unit, int block = 0) const;
  // The first of this rank's heads, counted in the whole model.
  int64_t first_head() const { return model_.first_head; }
  // The router's own losses for this rank's tokens; of a unit with experts.
  RouterLosses router_losses(int saved_slot, int unit, int block = 0) const {
    return trireme::router_losses(model_, route(saved_slot, unit, block));
  }

 private:
  // One call of a pass through a unit.
  struct Call {
    int op = 0;
    OpHalf half = OpHalf::Forward;
  };
  struct Unit {
    std::vector<std::unique_ptr<OpBody>> ops;
    std::vector<LeafSums> leaf_sums;            // [op]
    size_t first_op = 0;                        // of the ops of all units
    std::vector<Call> forward, again;           // again: what B and W need and is not stored
    std::vector<Call> evaluation;               // F without training: ops that the output needs
    std::array<std::vector<Call>, 3> backward;  // [Backward]
    MatrixAt copied_grad, input_grad;  // the gradient of the unit's input, where it lies elsewhere
    std::vector<RouteAt> routes;       // of each router
    std::vector<TensorAt> max_H;       // of each attention that reports it
  };

  void fill_constants(const Frame& scratch) const;
  void bind_units(const StageUnits& units, const StageMemory& memory, uint64_t seed);
  static void order_calls(const UnitKind& kind, bool is_first, bool rows_travel, Unit& unit);
  void run(Ctx& ctx, const MicrobatchInfo& info, const Unit& unit, const std::vector<Call>& calls,
           const SlotMemory& memory, Write write) const;
  static void run(Ctx& ctx, const MicrobatchInfo& info, const Unit& unit, const Call& call,
                  const SlotMemory& memory, Write write);
  SlotMemory memory_of(const StageSlots& slots, int unit) const;
  Documents documents_of(const SlotMemory& m) const {
    return {m(document_first_T_), m(document_position_T_), m(document_first_N_)};
  }
  TensorAt saved_at(const char* name) const;
  MatrixAt residual_at(const TensorPlace& place) const;
  TensorRef saved_tensor(const std::string& name, int saved_slot) const;

  ModelShard model_;
  StageShape shape_;
  StageTables tables_;
  StageMemory memory_;
  std::vector<Unit> units_;
  OpClock* clock_ = nullptr;
  MatrixAt input_TC_, output_TC_, input_grad_TC_, output_grad_TC_;
  TensorAt document_first_T_, document_position_T_, document_first_N_;
};

}  // namespace trireme
