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
    block(layer, "attn", "norm1", layer + "x1", {"wq", "wk", "wv", "bq", "bk", "bv"}, "wo", "bo",
          [&](const std::string& block, const std::string& u) { return attend(block, u); });
    if (model_.has_experts()) return experts(layer);
    block(layer, "mlp", "norm2", layer + "y", {"w_gate", "w_up", "b_gate", "b_up"}, "w_down",
          "b_down",
          [&](const std::string& block, const std::string& u) { return activate(block, u); });
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
           {part, join_softmax(), Shape{3 * LayerSlices::of(shape_).all, count}, DType::F32});
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
  bool crosses_in_pieces(const std::string& block) const {
    const bool is_mlp = block.ends_with(".mlp") && !model_.has_experts();
    return shape_.tp_overlap && (is_mlp || block.ends_with(".attn"));
  }
  // `weights`: of the matmul that reads what enters, or makes what leaves.
  void enter(const std::string& block, const std::string& in, const std::string& out,
             const std::vector<std::string>& weights = {}) {
    cross(Kind::Enter, enter_block(flow_.residual), block, in, out, weights);
  }
  void leave(const std::string& block, const std::string& in, const std::string& out,
             const std::vector<std::string>& weights = {}) {
    cross(Kind::Leave, leave_block(flow_.residual), block, in, out, weights);
  }
  void cross(Kind kind, const Redistribution& change, const std::string& block,
             const std::string& in, const std::string& out,
             const std::vector<std::string>& weights) {
    const bool in_pieces = crosses_in_pieces(block);
    move(kind, block, in, out,
         {in, change, tokens_by_width(), shape_.compute, MeshAxis::Tp, in_pieces,
          in_pieces ? weights : std::vector<std::string>{}});
  }

  // Between the ranks of cp or ep; returns the result.
  std::string exchange(MeshAxis axis, const std::string& block, const std::string& in,
                       Redistribution change, const Shape& global, DType dtype) {
    const std::string out = in + "@" + std::string(name_of(axis));
    move(Kind::Exchange, block, in, out, {in, change, global, dtype, axis});
    return out;
  }

  // out = residual + row(middle(column(norm(residual)))).
  template <typename Middle>
  void block(const std::string& layer, const std::string& name, const std::string& norm,
             const std::string& out, const std::vector<std::string>& column,
             const std::string& row_weight, const std::string& row_bias, Middle middle) {
    const std::string block = layer + name, prefix = block + ".";
    step(Kind::Norm, block, residual_, prefix + "h", starting(layer + norm));
    const std::vector<std::string> read = existing(prefix, column);
    const std::vector<std::string> made = existing(prefix, {row_weight, row_bias});
    enter(block, prefix + "h", prefix + "h_full", read);
    step(Kind::Column, block, prefix + "h_full", prefix + "u", read);
    step(Kind::Row, block, middle(block, prefix + "u"), prefix + "partial", made);
    add_to_residual(block, prefix + "partial", out, made);
  }
  void add_to_residual(const std::string& block, const std::string& partial, const std::string& out,
                       const std::vector<std::string>& weights = {}) {
    leave(block, partial, block + ".p", weights);
    step(Kind::Add, block, block + ".p", out, {}).onto = residual_;
    residual_ = out;
  }

  std::string activate(const std::string& block, const std::string& u) {
    step(Kind::Shards, block, u, block + ".a", {});
    return block + ".a";
  }

  // Keys and values pass every rank of cp, or heads of whole sequences meet on one.
  std::string attend(const std::string& block, const std::string& u) {
    const Placement tokens = Placement::shard(0), heads = Placement::shard(1);
    const Shape qkv{shape_.micro_sequences * model_.seq_len, model_.qkv_width()};
    if (shape_.context_exchange == ContextExchange::Ring) {
      const std::string keys = exchange(MeshAxis::Cp, block, u, {tokens, Placement::replicate()},
                                        {qkv[0], 2 * model_.kv_width()}, shape_.compute);
      step(Kind::Attend, block, u, block + ".o", {}).onto = keys;
      return block + ".o";
    }
    const std::string of_heads =
        exchange(MeshAxis::Cp, block, u, {tokens, heads}, qkv, shape_.compute);
    step(Kind::Attend, block, of_heads, block + ".o", {});
    return exchange(MeshAxis::Cp, block, block + ".o", {heads, tokens}, {qkv[0], model_.q_width()},
                    shape_.compute);
  }

  // The MLP with experts: rows go to them and come back on one rank, weighted by the router. Each
  // expert, and the shared ones, has its hidden units on all ranks of tp.
  void experts(const std::string& layer) {
    const std::string block = layer + "mlp", prefix = block + ".", h = prefix + "h_full";
    step(Kind::Norm, block, residual_, prefix + "h", starting(layer + "norm2"));
    enter(block, prefix + "h", h);
    const std::string routes = route(block, h);
    const Redistribution to_experts{Placement::shard(0), Placement::shard(1)};
    const Redistribution to_tokens{Placement::shard(1), Placement::shard(0)};
    const Shape rows{model_.expert_rows(num_tokens()) * shape_.ep, model_.d_model};
    const std::string x = exchange(MeshAxis::Ep, block, h, to_experts, rows, shape_.compute);
    const std::string weights =
        exchange(MeshAxis::Ep, block, routes, to_experts, {rows[0], 1}, DType::F32);
    const std::string of_experts = expert_mlp(block, "experts.", x, weights);
    std::string result = exchange(MeshAxis::Ep, block, of_experts, to_tokens, rows, shape_.compute);
    if (model_.shared_experts > 0) {
      const std::string shared = expert_mlp(block, "shared.", h, "");
      step(Kind::Merge, block, result, prefix + "sum", {}).onto = shared;
      result = prefix + "sum";
    }
    add_to_residual(block, result, layer + "y");
  }

  // Each token's weights; balance, and whether an expert has room, are questions to all of cp.
  std::string route(const std::string& block, const std::string& h) {
    const std::string prefix = block + ".";
    step(Kind::Route, block, h, prefix + "scores", existing(prefix, {"router", "router_bias"}));
    step(Kind::Count, block, prefix + "scores", prefix + "visits", {});
    const Redistribution sum{Placement::partial(), Placement::invariant()};
    const int64_t counts =
        shape_.micro_sequences * (model_.capacity_factor > 0.0 ? 1 + 2 * shape_.cp : 1);
    const std::string visits =
        exchange(MeshAxis::Cp, block, prefix + "visits", sum, {counts, model_.experts}, DType::I32);
    step(Kind::Balance, block, prefix + "scores", prefix + "routes", {}).onto = visits;
    return prefix + "routes";
  }

  std::string expert_mlp(const std::string& block, const std::string& kind, const std::string& in,
                         const std::string& weights) {
    const std::string prefix = block + "." + kind;
    std::vector<std::string> column, row;
    for (const std::string& name : starting(prefix)) {
      (name.ends_with("w_down") ? row : column).push_back(name);
    }
    step(Kind::Column, block, in, prefix + "u", column);
    step(Kind::Shards, block, prefix + "u", prefix + "a", {}).onto = weights;
    step(Kind::Rows, block, prefix + "a", prefix + "partial", row);
    return prefix + "partial";
  }

  const ModelSpec& model_;
  const StageShape& shape_;
  const std::vector<ParamSpec>& params_;
  StageFlow& flow_;
  std::string residual_ = "x";  // the tensor that is the residual stream now
};

TensorMove backward_move(const TensorMove& forward) {
  return {"d" + forward.tensor, backward_of(forward.change), forward.global, forward.dtype,
          forward.axis,         forward.in_pieces,           forward.weights};
}

}  // namespace

StageFlow stage_flow(const ModelSpec& model, const StageSpec& stage, const StageShape& shape) {
  const std::vector<ParamSpec> params = local_param_table(model, stage, shape);
  StageFlow flow{shard_model(model, shape).residual, shape.cp, shape.ep, {}, {}, {}};
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
    if (!moves_tensor) continue;  // over tp
    moves.forward.push_back(step.move);
    if (step.kind == Kind::Join) continue;  // its gradient is each rank's own
    // The head goes back inside F, nothing goes back from the embedding but to its table.
    std::vector<TensorMove>& backward = in_layer               ? moves.backward_input
                                        : step.block == "head" ? moves.forward
                                                               : moves.backward_weight;
    backward.push_back(backward_move(step.move));
    // What a block has read is gathered again where its weights' gradients are made.
    if (step.kind == Kind::Enter) {
      moves.backward_weight.push_back(step.move);
      moves.backward_weight.back().in_pieces = false;
    }
    // The MLP's result is not computed again.
    const bool recomputed = step.kind == Kind::Enter || step.block.ends_with(".attn");
    if (in_layer && recompute == Recompute::Full && recomputed) {
      moves.recompute.push_back(step.move);
    }
  }
  return moves;
}

}  // namespace trireme
