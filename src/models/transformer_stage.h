#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/stage_tables.h"
#include "nn/attention.h"
#include "nn/embedding.h"
#include "nn/feed_forward.h"
#include "nn/head.h"
#include "nn/router_losses.h"

namespace trireme {

// Where a stage's memory lies; the pointers outlive the stage.
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

// A consecutive part of a transformer, bound to planned memory before step 1. F, B, W and BW read
// like the formulas; nothing is allocated or looked up in them.
class TransformerStage {
 public:
  TransformerStage(const ModelSpec& model, const StageSpec& stage, const StageShape& shape,
                   const StageTables& tables, const StageMemory& memory, uint64_t seed);

  // A unit at a time: the embedding, each layer, the head, in the order of F. Parameters of a unit
  // lie together, so a unit is what data parallelism unshards and reduces.
  int num_units() const { return int(stage_.num_layers) + stage_.has_embedding + stage_.has_head; }
  void forward_unit(Ctx& ctx, const MicrobatchInfo& info, int saved_slot, int unit) const;
  // B and W of one unit after the other, so that the gradients between layers live in one layer's
  // scratch.
  void backward_unit(Ctx& ctx, const MicrobatchInfo& info, const StageSlots& slots, int unit) const;

  void backward_input_unit(Ctx& ctx, const MicrobatchInfo& info, const StageSlots& slots,
                           int unit) const;
  void backward_weight_unit(Ctx& ctx, const MicrobatchInfo& info, const StageSlots& slots,
                            int unit) const;

  // What stages hand to each other.
  MatrixRef input_TC(int saved_slot) const;
  MatrixRef output_TC(int saved_slot) const;
  MatrixRef input_grad_TC(int weight_grad_slot) const;
  MatrixRef output_grad_TC(int weight_grad_slot) const;

  // Inputs and outputs of a micro-batch; empty where the stage has no embedding or no head.
  std::span<int32_t> tokens(int saved_slot) const;
  std::span<int32_t> targets(int saved_slot) const;
  std::span<const float> losses(int saved_slot) const;

  // Where the tokens of a layer go; empty where there are no experts.
  const MoeBlock::Route& route(int saved_slot, int unit) const {
    return saved_[size_t(saved_slot)].layers[size_t(layer_of(unit))].ffn.route;
  }
  // Of a layer: visits of every expert, and those that were dropped; empty where there is none.
  std::span<const int32_t> expert_load(int saved_slot, int unit) const;
  // Of a layer with experts: what its router's own losses are for this rank's tokens.
  RouterLosses router_losses(int saved_slot, int unit) const {
    return trireme::router_losses(model_, route(saved_slot, unit));
  }

 private:
  struct LayerSaved {
    AttentionBlock::Saved attention;
    FeedForward::Saved ffn;
  };
  struct LayerGrads {
    AttentionBlock::Grads attention;
    FeedForward::Grads ffn;
  };
  struct Saved {
    EmbeddingBlock::Saved embedding;
    std::vector<LayerSaved> layers;
    HeadBlock::Saved head;
  };
  struct LayerParams {
    AttentionBlock::Params attention;
    FeedForward::Params ffn;
  };
  struct ParamGrads {
    EmbeddingBlock::Params embedding;
    std::vector<LayerParams> layers;
    HeadBlock::Params head;
  };
  struct Layer {
    AttentionBlock attention;
    FeedForward ffn;
  };

  void bind_saved(const Frame& saved, const Frame& scratch);
  LayerSaved bind_layer_saved(int64_t layer, const Frame& saved, const Frame& scratch) const;
  void bind_ffn_grads(const Frame& weight_grad, const Frame& scratch, const std::string& prefix,
                      FeedForward::Grads& grads) const;
  void bind_layer_grads(const Frame& weight_grad, const Frame& scratch);
  void bind_param_grads(const std::vector<void*>& unit_grads);

  MatrixRef full_or(const MatrixRef& residual_TC) const {
    return full_TC_ ? full_TC_ : residual_TC;
  }

  int embedding_unit() const { return stage_.has_embedding ? 0 : -1; }
  int head_unit() const { return stage_.has_head ? num_units() - 1 : -1; }
  int layer_of(int unit) const { return unit - (stage_.has_embedding ? 1 : 0); }
  int unit_of_layer(int64_t layer) const { return int(layer) + (stage_.has_embedding ? 1 : 0); }
  bool is_layer(int unit) const { return unit != embedding_unit() && unit != head_unit(); }

  void recompute_unit(Ctx& ctx, const MicrobatchInfo& info, int saved_slot, int unit) const;

  ModelShard model_;
  StageSpec stage_;
  StageShape shape_;
  StageTables tables_;

  EmbeddingBlock embedding_;
  std::vector<Layer> layers_;
  HeadBlock head_;
  std::vector<Saved> saved_;                    // [saved slot]
  std::vector<std::vector<LayerGrads>> grads_;  // [weight_grad slot][layer]
  std::vector<MatrixRef> input_grad_;           // [weight_grad slot] gradient of the stage's input
  std::vector<ParamGrads> param_grads_;         // [grad slot]
  MatrixRef full_TC_;  // scratch for all tokens; absent where the residual stream has them
  MatrixRef embedding_scratch_TC_;
  // A tied head and embedding in one sum: the head's W comes first in BW and overwrites the table's
  // gradient, so the embedding must add. Apart, each use has its own.
  bool embedding_adds_ = false;
};

// cos and sin of the positions of this rank's tokens and of every pair, with Llama-3's scaling of
// long wavelengths.
void fill_rope_table(const ModelShard& model, const RopeTable& table);

}  // namespace trireme
