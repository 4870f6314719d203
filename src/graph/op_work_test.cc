#include "graph/op_work.h"

#include <gtest/gtest.h>

#include "graph/all_passes.h"
#include "graph/fuse.h"
#include "graph/model_graphs.h"
#include "graph/param_table.h"
#include "graph/place.h"
#include "graph/stack.h"
#include "graph/work.h"
#include "schema/run_config.h"

namespace trireme {
namespace {

ModelSpec small_model(ModelFamily family) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 2;
  config.model.d_model = 64;
  config.model.heads = 8;
  config.model.kv_heads = family == ModelFamily::Gpt2 ? 8 : 4;
  config.model.vocab_size = 304;
  config.model.seq_len = 32;
  if (family == ModelFamily::Moe) {
    config.model.experts = 8;
    config.model.top_k = 2;
  }
  return resolve_model(config.model, 0).value();
}

ModelSpec latent_model() {
  ModelSpec model = small_model(ModelFamily::Llama);
  model.kv_heads = 8;
  model.kv_lora_rank = 24;
  model.q_lora_rank = 20;
  model.qk_rope_head_dim = 4;
  model.v_head_dim = 6;
  return model;
}

// True if each tp rank makes the whole output of a product.
bool makes_whole(const Graph& graph, const Op& op) {
  const Axis last = graph.values[size_t(op.outputs.front())].dims.back().axis;
  return op.kind == OpKind::Linear &&
         (last == Axis::Latent || last == Axis::QueryLatent || last == Axis::RopeWidth);
}

// FLOPs of all products of a unit in F, B and W.
double product_flops(const std::vector<OpWork>& works) {
  double flops = 0.0;
  for (const OpWork& work : works) {
    for (const HalfWork* half : {&work.forward, &work.input_grad, &work.weight_grad}) {
      for (const Product& product : half->products) flops += product.flops();
    }
  }
  return flops;
}

double attention_flops(const std::vector<OpWork>& works) {
  double flops = 0.0;
  for (const OpWork& work : works) {
    if (work.attention) flops += work.attention->forward_flops();
  }
  return flops;
}

// The ranks of tp and cp together do the FLOPs of the model, whether ops are fused or not.
TEST(OpWork, RanksTogetherDoTheFlopsOfTheModel) {
  std::vector<ModelSpec> models = {latent_model()};
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    models.push_back(small_model(family));
  }
  models.back().window = 7;
  for (const ModelSpec& model : models) {
    for (const auto& [tp, cp] : {std::pair{1, 1}, {2, 1}, {4, 1}, {1, 2}, {2, 2}}) {
      for (const bool fuses : {false, true}) {
        StageShape shape{.micro_sequences = 4, .compute = DType::BF16};
        shape.tp = tp;
        shape.cp = cp;
        const ModelShard shard = shard_model(model, shape);
        for (const Graph& stated : {layer_graph(model, 0), head_graph(model)}) {
          const Graph placed = place(stack(stated), shape);
          const Graph graph = fuses ? fuse(placed) : placed;
          const auto works = op_works(graph, shard, shape);
          const double tokens = 4.0 * double(model.seq_len);
          const ModelFlops flops = flops_per_token(stated, model);
          double replicated = 0.0;  // the router runs on every tp rank, and what makes latents
          for (size_t i = 0; i < works.size(); ++i) {
            const bool is_whole =
                works[i].kind == OpKind::Route || makes_whole(graph, graph.ops[i]);
            if (is_whole) replicated += (tp - 1) * product_flops({works[i]}) * cp;
          }
          EXPECT_NEAR(product_flops(works) * tp * cp - replicated, tokens * flops.matmul,
                      1e-9 * tokens * flops.matmul)
              << stated.unit << " tp " << tp << " cp " << cp;
          EXPECT_NEAR(3.0 * attention_flops(works) * tp * cp, tokens * flops.attention,
                      1e-9 * (1.0 + tokens * flops.attention))
              << stated.unit << " tp " << tp << " cp " << cp;
        }
      }
    }
  }
}

// A query of a window sees min(i + 1, window) keys: counted one by one.
TEST(OpWork, AttentionCountsTheKeysInSight) {
  for (const int64_t window : {0, 1, 7, 31, 32, 100}) {
    const AttentionWork work{.sequences = 1,
                             .heads = 1,
                             .kv_heads = 1,
                             .queries = 32,
                             .keys = 32,
                             .head_dim = 12,
                             .value_dim = 8,
                             .window = window};
    double pairs = 0.0;
    for (int64_t i = 0; i < 32; ++i) pairs += double(std::min(i + 1, window > 0 ? window : 32));
    EXPECT_NEAR(work.forward_flops(), pairs * 2.0 * (12.0 + 8.0), 1e-9 * pairs) << window;
  }
}

// A frozen matrix has no dW, so it counts 4 per weight; an adapter counts 6 per number. What W
// computes again counts for no model.
TEST(OpWork, AdaptersCountSixPerNumberAndFrozenMatricesFourPerWeight) {
  ModelSpec model = small_model(ModelFamily::Llama);
  const double base = model_flops_per_token(model).matmul;
  model.lora_rank = 4;
  model.lora_scale = 2.0;
  model.lora_targets = *parse_lora_targets("q,v,down");
  const double C = 64.0, kv = 32.0, F = double(model.d_ff), r = 4.0;
  const double numbers = 2.0 * r * ((C + C) + (C + kv) + (F + C));
  EXPECT_DOUBLE_EQ(double(num_trained_params(model)), numbers);
  EXPECT_DOUBLE_EQ(model_flops_per_token(model).matmul, base * 4.0 / 6.0 + 6.0 * numbers);
  const Graph placed = place(stack(layer_graph(model, 0)), {});
  const auto works = op_works(placed, shard_model(model, {}), {});
  const double again = 2.0 * numbers / 2.0 * double(model.seq_len);
  EXPECT_DOUBLE_EQ(
      product_flops(works),
      flops_per_token(layer_graph(model, 0), model).matmul * double(model.seq_len) + again);
}

// What latent attention makes from one input has one adapter for each of its two matrices.
TEST(OpWork, AdaptersOfLatentAttentionCountSixPerNumberToo) {
  ModelSpec model = latent_model();
  const double base = model_flops_per_token(model).matmul;
  model.lora_rank = 4;
  model.lora_scale = 2.0;
  model.lora_targets = *parse_lora_targets("q_a,q_b,kv_a,kv_b,o");
  const double C = 64.0, r = 4.0, H = 8.0, D = double(model.head_dim), P = 4.0, V = 6.0;
  const double R = 24.0, Rq = 20.0;
  const double queries = (C + Rq) + (Rq + H * (D + P));
  const double keys = (C + R) + (C + P) + (R + H * D), values = R + H * V, output = H * V + C;
  const double numbers = 2.0 * r * (queries + keys + values + output);
  EXPECT_DOUBLE_EQ(double(num_trained_params(model)), numbers);
  EXPECT_DOUBLE_EQ(model_flops_per_token(model).matmul, base * 4.0 / 6.0 + 6.0 * numbers);
}

// Ranks that have unequal numbers of rows of the images.
TEST(OpWork, RanksThatShareOutRowsOfImagesTogetherDoTheFlopsOfOne) {
  ModelConfig config;
  config.family = ModelFamily::ResNet50;
  config.layers = 4;
  config.image_size = 44;
  config.vocab_size = 10;
  config.seq_len = 1;
  const ModelSpec model = resolve_model(config, 0).value();
  const auto flops_of_rank = [&](int64_t layer, StageShape shape) {
    const Graph graph = placed_graph(layer_graph(model, layer), shape);
    return product_flops(op_works(graph, shard_model(model, shape), shape));
  };
  for (const int64_t layer : {0, 1, 3}) {
    const double whole = flops_of_rank(layer, {.micro_sequences = 5});
    for (const int tp : {1, 2, 3, 4}) {
      StageShape shape{.micro_sequences = 5, .tp = tp, .sequence_parallel = true};
      shape.layers = {{"conv*", LayerStrategy::Spatial}};
      double sum = 0.0;
      for (shape.tp_rank = 0; shape.tp_rank < tp; ++shape.tp_rank) {
        sum += flops_of_rank(layer, shape);
      }
      EXPECT_DOUBLE_EQ(sum, whole) << layer << " " << tp;
    }
  }
}

// Fusing kernels leaves products as they are, and only saves reads and writes.
TEST(OpWork, FusedOpsMoveFewerBytes) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama}) {
    const ModelSpec model = small_model(family);
    const StageShape shape{.micro_sequences = 2};
    const ModelShard shard = shard_model(model, shape);
    const auto bytes_of = [](const std::vector<OpWork>& works) {
      double bytes = 0.0;
      for (const OpWork& work : works) {
        bytes += work.forward.bytes + work.input_grad.bytes + work.weight_grad.bytes;
      }
      return bytes;
    };
    for (const Graph& stated : {layer_graph(model, 0), head_graph(model)}) {
      const Graph placed = place(stack(stated), shape);
      const auto apart = op_works(placed, shard, shape),
                 fused = op_works(fuse(placed), shard, shape);
      EXPECT_EQ(product_flops(apart), product_flops(fused));
      EXPECT_LT(bytes_of(fused), bytes_of(apart)) << stated.unit;
    }
  }
}

}  // namespace
}  // namespace trireme
