#include "graph/model_graphs.h"

#include <fmt/format.h>

#include "graph/graph_builder.h"
#include "graph/image_graphs.h"

namespace trireme {
namespace {

std::string layer_name(int64_t layer) { return fmt::format("layers.{}", layer); }

// The keys that a query sees. The heads of an indexer score all keys before it, and every token has
// one key for all of them.
ValueId chosen_keys(GraphBuilder& g, ValueId h, ValueId of_queries) {
  const ValueId k = g.linear("attn.index.wk", h, {Axis::IndexWidth});
  const ValueId weights = g.linear("attn.index.w_heads", h, {Axis::IndexHead});
  const ValueId q = g.linear("attn.index.wq", of_queries, {Axis::IndexHead, Axis::IndexWidth});
  return g.choose_keys("attn.index.choice", g.rope(q), g.rope(g.norm("attn.index.k_norm", k)),
                       weights);
}

// Keys and values are made from a latent, queries too where they have one. All heads share the part
// of the keys that has positions.
ValueId latent_attention(GraphBuilder& g, const ModelSpec& model, ValueId h) {
  const std::vector<Dim> queries = {Axis::Head, Axis::KeyWidth};
  const bool has_q_latent = model.q_lora_rank > 0;
  ValueId q = has_q_latent ? g.linear("attn.wq_down", h, {Axis::QueryLatent}) : -1;
  if (!has_q_latent) g.declare_weight("attn.wq", h, queries);
  const ValueId kv = g.linear("attn.wkv_down", h, {Axis::Latent});
  const ValueId shared = g.rope(g.linear("attn.shared.wk", h, {Axis::RopeWidth}));
  // Over tp, queries from the residual stream read all tokens, and the products above those of the
  // rank. The backward pass sums the addends of the ranks first, and then adds what needs no sum.
  const ValueId of_queries = has_q_latent ? g.norm("attn.q_norm", q) : h;
  q = g.linear(has_q_latent ? "attn.wq_up" : "attn.wq", of_queries, queries);
  const ValueId latent = g.norm("attn.kv_norm", kv);
  const ValueId k = g.linear("attn.wk_up", latent, {Axis::KvHead, Axis::HeadWidth});
  const ValueId v = g.linear("attn.wv_up", latent, {Axis::KvHead, Axis::ValueWidth});
  const ValueId keys = g.concat("attn.keys", k, shared, Axis::KeyWidth);
  const ValueId chosen = model.has_indexer() ? chosen_keys(g, h, of_queries) : -1;
  return g.project("attn.wo", g.attention("attn", g.rope(q), keys, v, chosen));
}

// attention(rope(h Wqkv)) Wo
ValueId attention(GraphBuilder& g, const ModelSpec& model, ValueId h) {
  if (model.has_latents()) return latent_attention(g, model, h);
  ValueId q = g.linear("attn.wq", h, {Axis::Head, Axis::HeadWidth});
  ValueId k = g.linear("attn.wk", h, {Axis::KvHead, Axis::HeadWidth});
  const ValueId v = g.linear("attn.wv", h, {Axis::KvHead, Axis::HeadWidth});
  q = g.head_norm("attn.q_norm", q);
  k = g.head_norm("attn.k_norm", k);
  if (model.rope) {
    q = g.rope(q);
    k = g.rope(k);
  }
  return g.project("attn.wo", g.attention("attn", q, k, v));
}

// act(h Wup) Wdown, or (silu(h Wgate) * h Wup) Wdown
ValueId mlp(GraphBuilder& g, const ModelSpec& model, const std::string& prefix, Axis hidden,
            ValueId h) {
  if (model.mlp != MlpType::Swiglu) {
    return g.project(prefix + "w_down", g.activation(g.linear(prefix + "w_up", h, {hidden})));
  }
  const ValueId gate = g.linear(prefix + "w_gate", h, {hidden});
  const ValueId up = g.linear(prefix + "w_up", h, {hidden});
  return g.project(prefix + "w_down", g.swiglu(gate, up));
}

// The sum of the experts that the router chooses, weighted, and of the shared experts.
ValueId mixture_of_experts(GraphBuilder& g, const ModelSpec& model, ValueId h) {
  g.declare_router("mlp.router", "mlp.router_bias");
  ValueId shared = -1;
  if (model.shared_experts > 0) shared = mlp(g, model, "mlp.shared.", Axis::SharedHidden, h);
  const ValueId scores = g.route("mlp.router", h);
  const ValueId choice = g.choose("mlp.router_bias", scores, g.count(scores));
  const ValueId chosen = g.combine("mlp.combine", g.experts("mlp.experts.", g.dispatch(h, choice)));
  return model.shared_experts > 0 ? g.add("mlp.sum", chosen, shared) : chosen;
}

// y = block(norm(e) Wembedding + norm(h) Whidden). Here e is the embedding of the token `depth`
// positions ahead, and h is what the head reads behind the module before, or behind the last layer.
// Returns norm(y), which the head reads.
ValueId module_ahead(GraphBuilder& g, const ModelSpec& model, const std::string& prefix,
                     int64_t depth, ValueId h) {
  const ValueId e = g.lookup_ahead(prefix + "embedding", depth);
  const ValueId of_token =
      g.linear(prefix + "from_embedding", g.norm(prefix + "embedding_norm", e), {Axis::Width});
  const ValueId of_hidden =
      g.linear(prefix + "from_hidden", g.norm(prefix + "hidden_norm", h), {Axis::Width});
  const ValueId x = g.add(prefix + "x", of_token, of_hidden);
  const ValueId y = g.unit(layer_graph(model, model.layers + depth - 1), prefix, x);
  return model.final_norm ? g.norm(prefix + "final_norm", y) : y;
}

}  // namespace

std::string module_prefix(int64_t depth) { return fmt::format("mtp.{}.", depth - 1); }

Graph embedding_graph(const ModelSpec& model) {
  if (model.reads_images()) return first_image_graph(model);
  GraphBuilder g(model, "embedding");
  const ValueId tokens = g.input("tokens", {Axis::Token}, Numbers::I32);
  const char* positions = model.rope ? "" : "embedding.positions";
  ValueId e = g.lookup(std::string(kTokenTable), positions, tokens);
  e = g.dropout("embedding.dropout", e);
  return g.output(model.embedding_norm ? g.norm("embedding.norm", e) : e);
}

Graph layer_graph(const ModelSpec& model, int64_t layer) {
  if (model.reads_images()) return block_graph(model, layer, layer_name(layer));
  GraphBuilder g(model, layer_name(layer));
  const auto feed_forward = [&](ValueId h) {
    if (model.has_experts(layer)) return mixture_of_experts(g, model, h);
    return mlp(g, model, "mlp.", model.has_experts() ? Axis::DenseHidden : Axis::Hidden, h);
  };
  const ValueId x = g.input("x", {Axis::Token, Axis::Width});
  const ValueId h1 = g.norm("norm1", x);
  const ValueId a = attention(g, model, h1);
  if (model.parallel_block) {  // x + attention(norm(x)) + mlp(norm(x))
    const ValueId sum = g.add("block.sum", a, feed_forward(h1));
    return g.output(
        g.add("y", x, g.dropout("block.residual_dropout", g.layer_scale("block.scale", sum))));
  }
  const ValueId x1 =
      g.add("x1", x, g.dropout("attn.residual_dropout", g.layer_scale("attn.scale", a)));
  const ValueId p = feed_forward(g.norm("norm2", x1));
  return g.output(g.add("y", x1, g.dropout("mlp.residual_dropout", g.layer_scale("mlp.scale", p))));
}

Graph head_graph(const ModelSpec& model) {
  if (model.reads_images()) return image_head_graph(model);
  GraphBuilder g(model, "head");
  const ValueId y = g.input("y", {Axis::Token, Axis::Width});
  ValueId h = model.final_norm ? g.norm("final_norm", y) : y;
  const std::string weight = model.tied_head ? std::string(kTokenTable) : "head.weight";
  const ValueId parts = g.softmax_parts(weight, h);
  std::vector<ValueId> parts_ahead;
  for (int64_t depth = 1; depth <= model.mtp_depth; ++depth) {
    h = module_ahead(g, model, module_prefix(depth), depth, h);
    parts_ahead.push_back(g.softmax_parts(weight, h));
  }
  // A loss overwrites the gradient of what it reads, and the modules add theirs to it. So the
  // losses are the last ops, because the backward pass begins with these.
  for (int64_t depth = 1; depth <= model.mtp_depth; ++depth) {
    g.cross_entropy_ahead(module_prefix(depth) + "loss", parts_ahead[size_t(depth - 1)], depth);
  }
  return g.output(g.cross_entropy(parts));
}

void for_each_unit(const ModelSpec& model, const StageSpec& stage,
                   const std::function<Graph(Graph)>& pass,
                   const std::function<void(const Graph& unit, bool is_new)>& visit) {
  if (stage.has_embedding) visit(pass(embedding_graph(model)), true);
  for (const LayerRun& run : layer_runs(model, stage)) {
    Graph layer = pass(layer_graph(model, run.first));
    for (int64_t i = 0; i < run.count; ++i) {
      layer.unit = layer_name(run.first + i);
      visit(layer, i == 0);
    }
  }
  if (stage.has_head) visit(pass(head_graph(model)), true);
}

std::vector<Graph> stage_graphs(const ModelSpec& model, const StageSpec& stage,
                                const std::function<Graph(Graph)>& pass) {
  std::vector<Graph> units;
  for_each_unit(model, stage, pass, [&](const Graph& unit, bool) { units.push_back(unit); });
  return units;
}

}  // namespace trireme
