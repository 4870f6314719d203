#pragma once

#include <variant>

#include "nn/moe.h"

namespace trireme {

// The second block of a layer: an MLP, or experts in its place; decided when it is bound.
class FeedForward {
 public:
  using Params = std::variant<MlpBlock::Params, MoeBlock::Params>;
  using Saved = MoeBlock::Saved;  // an MLP has the part of its own alone
  using Grads = MoeBlock::Grads;

  static FeedForward bind(const ModelShard& model, const Frame& params, const std::string& layer,
                          uint64_t seed, const SumScratch& sums = {}) {
    if (model.has_experts()) return MoeBlock::bind(model, params, layer, seed);
    return MlpBlock::bind(model, params, layer, seed, sums);
  }
  static Params bind_params(const ModelShard& model, const Frame& frame, const std::string& layer) {
    if (model.has_experts()) return MoeBlock::Params::bind(model, frame, layer);
    return MlpBlock::Params::bind(model, frame, layer);
  }

  void forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& s) const {
    if (const auto* moe = std::get_if<MoeBlock>(&block_)) return moe->forward(ctx, info, s);
    std::get<MlpBlock>(block_).forward(ctx, info, s.mlp);
  }
  void recompute_all(Ctx& ctx, const Saved& s) const {
    if (const auto* moe = std::get_if<MoeBlock>(&block_)) return moe->recompute_all(ctx, s);
    std::get<MlpBlock>(block_).recompute_all(ctx, s.mlp);
  }
  void recompute_norm_and_activation(Ctx& ctx, const Saved& s) const {
    const auto* moe = std::get_if<MoeBlock>(&block_);
    if (moe != nullptr) return moe->recompute_norm_and_activation(ctx, s);
    std::get<MlpBlock>(block_).recompute_norm_and_activation(ctx, s.mlp);
  }
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const Saved& s, const Grads& g) const {
    if (const auto* moe = std::get_if<MoeBlock>(&block_)) {
      return moe->backward_input(ctx, info, s, g);
    }
    std::get<MlpBlock>(block_).backward_input(ctx, info, s.mlp, g.mlp);
  }
  void backward_weight(Ctx& ctx, const Saved& s, const Grads& g, const Params& dparams,
                       Write write) const {
    if (const auto* moe = std::get_if<MoeBlock>(&block_)) {
      return moe->backward_weight(ctx, s, g, std::get<MoeBlock::Params>(dparams), write);
    }
    std::get<MlpBlock>(block_).backward_weight(ctx, s.mlp, g.mlp,
                                               std::get<MlpBlock::Params>(dparams), write);
  }

 private:
  FeedForward(MlpBlock mlp) : block_(std::move(mlp)) {}  // NOLINT: one alternative
  FeedForward(MoeBlock moe) : block_(std::move(moe)) {}  // NOLINT: the other

  std::variant<MlpBlock, MoeBlock> block_;
};

}  // namespace trireme
