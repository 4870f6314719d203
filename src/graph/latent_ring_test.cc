#include "graph/latent_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "graph/all_passes.h"
#include "graph/model_graphs.h"
#include "graph/op_work.h"
#include "graph/work.h"
#include "schema/run_config.h"

namespace trireme {
namespace {

// Keys and values of a head have 8 + 4 + 6 columns; of all heads 144.
ModelSpec latent_model(int64_t latent) {
  ModelConfig config;
  config.family = ModelFamily::Llama;
  config.layers = 2;
  config.d_model = 64;
  config.heads = 8;
  config.head_dim = 8;
  config.vocab_size = 304;
  config.seq_len = 32;
  config.kv_lora_rank = latent;
  config.q_lora_rank = 20;
  config.qk_rope_head_dim = 4;
  config.v_head_dim = 6;
  return resolve_model(config, 0).value();
}

StageShape ring_of(int cp, int tp = 1) {
  StageShape shape{.micro_sequences = 4};
  shape.cp = cp;
  shape.tp = tp;
  return shape;
}

bool has_op(const Graph& graph, OpKind kind) {
  return std::any_of(graph.ops.begin(), graph.ops.end(),
                     [&](const Op& op) { return op.kind == kind; });
}

int64_t columns_of(const ModelSpec& model, const StageShape& shape) {
  return ring_columns(fused_graph(layer_graph(model, 0), shape), shard_model(model, shape));
}

TEST(LatentRing, SendsWhatIsSmaller) {
  for (const int64_t latent : {1, 13, 14, 31, 32, 67, 68, 139, 140, 141, 400}) {
    const ModelSpec model = latent_model(latent);
    for (const int tp : {1, 2, 4, 8}) {
      const StageShape shape = ring_of(2, tp);
      const int64_t keys_and_values = 144 / tp, latents = latent + 4;
      EXPECT_EQ(columns_of(model, shape), std::min(keys_and_values, latents))
          << latent << " over tp " << tp;
      EXPECT_EQ(has_op(fused_graph(layer_graph(model, 0), shape), OpKind::LatentAttention),
                latents < keys_and_values);
    }
  }
}

// Whole sequences and an all-to-all of heads need the keys and values themselves. So do adapters,
// which add to them.
TEST(LatentRing, OtherLayoutsKeepKeysAndValues) {
  const ModelSpec model = latent_model(10);
  StageShape all_to_all = ring_of(2);
  all_to_all.context_exchange = ContextExchange::AllToAll;
  for (const StageShape& shape : {ring_of(1), all_to_all}) {
    EXPECT_TRUE(has_op(fused_graph(layer_graph(model, 0), shape), OpKind::Attention));
  }
  ModelSpec adapted = model;
  adapted.lora_rank = 2;
  adapted.lora_scale = 1.0;
  adapted.lora_targets = *parse_lora_targets("kv_b");
  EXPECT_EQ(columns_of(adapted, ring_of(2)), 144);
  adapted.lora_targets = *parse_lora_targets("kv_a,o");
  EXPECT_EQ(columns_of(adapted, ring_of(2)), 14);
}

// What is made again for the latents of other ranks is no part of the model's FLOPs.
TEST(LatentRing, RanksTogetherDoTheFlopsOfTheModelAndMakeKeysAndValuesAgain) {
  const ModelSpec model = latent_model(10);
  const double tokens = 4.0 * double(model.seq_len);
  const double expansion = 2.0 * tokens * 10.0 * 8.0 * (8.0 + 6.0);
  for (const int cp : {2, 4, 8}) {
    const StageShape shape = ring_of(cp);
    const Graph graph = fused_graph(layer_graph(model, 0), shape);
    double flops = 0.0, again = 0.0;
    for (const OpWork& work : op_works(graph, shard_model(model, shape), shape)) {
      for (const HalfWork* half : {&work.forward, &work.input_grad, &work.weight_grad}) {
        for (const Product& product : half->products) {
          (product.is_again ? again : flops) += cp * product.flops();
        }
      }
    }
    const double expected = tokens * flops_per_token(layer_graph(model, 0), model).matmul;
    EXPECT_NEAR(flops, expected, 1e-9 * expected) << cp;
    // In F for the other ranks, in B for all; then the gradients of latents and of weights.
    EXPECT_NEAR(again, expansion * (4.0 * cp - 3.0), 1e-9 * again) << cp;
  }
}

}  // namespace
}  // namespace trireme
