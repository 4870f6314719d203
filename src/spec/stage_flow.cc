#include "spec/stage_flow.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

using Kind = FlowStep::Kind;

class FlowBuilder {
 public:
  FlowBuilder(const ModelSpec& model, const StageShape& shape, const std::vector<ParamSpec>& params,
              StageFlow& flow)
      : model_(model), shape_(shape), params_(params), flow_(flow) {}

  void embedding() {
    flow_.inputs.push_back({"tokens", Placement::invariant()});
    step(Kind::Lookup, "embedding", "tokens", "e_full",
         existing("embedding.", {"tokens", "positions"}));
    leave("embedding", "e_full", model_.embedding_norm ? "e" : residual_);
    if (model_.embedding_norm) {
      step(Kind::Norm, "embedding", "e", residual_, starting("embedding.norm."));
    }
  }

  void layer(int64_t index) {
    const std::string layer = fmt::format("layers.{}.", index);
    block(layer, "attn", "norm1", layer + "x1", {"wq", "wk", "wv", "bq", "bk", "bv"}, "wo", "bo");
    if (model_.has_experts()) return experts(layer);
    block(layer, "mlp", "norm2", layer + "y", {"w_gate", "w_up", "b_gate", "b_up"}, "w_down",
          "b_down");
  }

  const std::string& residual() const { return residual_; }

  void head() {
    std::string hidden = residual_;
    if (model_.final_norm) {
      hidden = "head.h";
      step(Kind::Norm, "head", residual_, hidden, starting("final_norm."));
    }
    enter("head", hidden, "head.h_full");
    const std::string weight = model_.tied_head ? "embedding.tokens" : "head.weight";
    for (int64_t begin = 0; begin < num_tokens(); begin += kLossTileTokens) {
      const std::string part = fmt::format("head.part[{}]", begin);
      step(Kind::Loss, "head", "head.h_full", part, {weight});
      const std::string loss = fmt::format("loss[{}]", begin);
      flow_.outputs.push_back({loss, Placement::invariant()});
      const int64_t count = std::min(kLossTileTokens, num_tokens() - begin);
      move(Kind::Join, "head", part, loss,
           {part, join_softmax(), Shape{3 * shape_.tp, count}, DType::F32});
    }
  }

 private:
  int64_t num_tokens() const { return shape_.micro_sequences * model_.seq_len / shape_.cp; }

  std::vector<std::string> starting(const std::string& prefix) const {
    std::vector<std::string> names;
    for (const ParamSpec& param : params_) {
      if (param.name.starts_with(prefix)) names.push_back(param.name);
    }
    return names;
  }
  std::vector<std::string> existing(const std::string& prefix,
                                    const std::vector<std::string>& names) const {
    std::vector<std::string> found;
    for (const std::string& name : names) {
      for (const ParamSpec& param : params_) {
        if (param.name == prefix + name) found.push_back(param.name);
      }
    }
    return found;
  }

  FlowStep& step(Kind kind, const std::string& block, const std::string& in, const std::string& out,
                 std::vector<std::string> params) {
    flow_.steps.push_back({kind, block, in, out, "", std::move(params), {}});
    return flow_.steps.back();
  }
  void move(Kind kind, const std::string& block, const std::string& in, const std::string& out,
            TensorMove tensor_move) {
    step(kind, block, in, out, {}).move = std::move(tensor_move);
  }
  Shape tokens_by_width() const { return Shape{num_tokens(), model_.d_model}; }
  void enter(const std::string& block, const std::string& in, const std::string& out) {
    move(Kind::Enter, block, in, out,
         {in, enter_block(flow_.residual), tokens_by_width(), shape_.compute});
  }
  void leave(const std::string& block, const std::string& in, const std::string& out) {
    move(Kind::Leave, block, in, out,
         {in, leave_block(flow_.residual), tokens_by_width(), shape_.compute});
  }

  // out = residual + row(shards(column(norm(residual)))).
  void block(const std::string& layer, const std::string& name, const std::string& norm,
             const std::string& out, const std::vector<std::string>& column,
             const std::string& row_weight, const std::string& row_bias) {
    const std::string block = layer + name, prefix = block + ".";
    step(Kind::Norm, block, residual_, prefix + "h", starting(layer + norm));
    enter(block, prefix + "h", prefix + "h_full");
    step(Kind::Column, block, prefix + "h_full", prefix + "u", existing(prefix, column));
    step(Kind::Shards, block, prefix + "u", prefix + "o", {});
    step(Kind::Row, block, prefix + "o", prefix + "partial",
         existing(prefix, {row_weight, row_bias}));
    leave(block, prefix + "partial", prefix + "p");
    step(Kind::Add, block, prefix + "p", out, {}).onto = residual_;
    residual_ = out;
  }

  // The MLP with experts: rows go to them and come back on one rank, weighted by the router. Each
  // expert, and the shared ones, has its hidden units on all ranks.
  void experts(const std::string& layer) {
    const std::string block = layer + "mlp", prefix = block + ".";
    step(Kind::Norm, block, residual_, prefix + "h", starting(layer + "norm2"));
    enter(block, prefix + "h", prefix + "h_full");
    step(Kind::Route, block, prefix + "h_full", prefix + "weights",
         existing(prefix, {"router", "router_bias"}));
    std::vector<std::string> column, row;
    for (const ParamSpec& param : params_) {
      const bool is_expert =
          param.name.starts_with(prefix + "experts.") || param.name.starts_with(prefix + "shared.");
      if (is_expert) (param.name.ends_with("w_down") ? row : column).push_back(param.name);
    }
    step(Kind::Column, block, prefix + "h_full", prefix + "u", column);
    step(Kind::Shards, block, prefix + "u", prefix + "a", {}).onto = prefix + "weights";
    step(Kind::Rows, block, prefix + "a", prefix + "partial", row);
    leave(block, prefix + "partial", prefix + "p");
    step(Kind::Add, block, prefix + "p", layer + "y", {}).onto = residual_;
    residual_ = layer + "y";
  }

  const ModelSpec& model_;
  const StageShape& shape_;
  const std::vector<ParamSpec>& params_;
  StageFlow& flow_;
  std::string residual_ = "x";  // the tensor that is the residual stream now
};

TensorMove backward_move(const TensorMove& forward) {
  return {"d" + forward.tensor, backward_of(forward.change), forward.global, forward.dtype};
}

}  // namespace

StageFlow stage_flow(const ModelSpec& model, const StageSpec& stage, const StageShape& shape) {
  const std::vector<ParamSpec> params = local_param_table(model, stage, shape);
  StageFlow flow{shard_model(model, shape).residual, {}, {}, {}};
  FlowBuilder builder(model, shape, params, flow);
  if (stage.has_embedding) {
    builder.embedding();
  } else {
    flow.inputs.push_back({"x", flow.residual});
  }
  for (int64_t i = 0; i < stage.num_layers; ++i) builder.layer(stage.first_layer + i);
  if (stage.has_head) {
    builder.head();
  } else {
    flow.outputs.push_back({builder.residual(), flow.residual});
  }
  return flow;
}

StageMoves stage_moves(const StageFlow& flow, Recompute recompute) {
  StageMoves moves;
  for (const FlowStep& step : flow.steps) {
    const bool in_layer = step.block.starts_with("layers.");
    const bool moves_tensor =
        step.kind == Kind::Enter || step.kind == Kind::Leave || step.kind == Kind::Join;
    if (!moves_tensor) continue;
    moves.forward.push_back(step.move);
    if (step.kind == Kind::Join) continue;  // its gradient is each rank's own
    // The head goes back inside F, nothing goes back from the embedding but to its table.
    std::vector<TensorMove>& backward = in_layer               ? moves.backward_input
                                        : step.block == "head" ? moves.forward
                                                               : moves.backward_weight;
    backward.push_back(backward_move(step.move));
    // What a block has read is gathered again where its weights' gradients are made.
    if (step.kind == Kind::Enter) moves.backward_weight.push_back(step.move);
    // The MLP's result is not computed again.
    const bool recomputed = step.kind == Kind::Enter || step.block.ends_with(".attn");
    if (in_layer && recompute == Recompute::Full && recomputed) {
      moves.recompute.push_back(step.move);
    }
  }
  return moves;
}

}  // namespace trireme
