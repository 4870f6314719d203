// The op that chooses the keys of every query (model.index_top_k) is priced and never run.

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/all_passes.h"
#include "graph/check_placed.h"
#include "graph/fuse.h"
#include "graph/model_graphs.h"
#include "graph/op_tensors.h"
#include "graph/op_work.h"
#include "graph/param_table.h"
#include "graph/work.h"

namespace trireme {
namespace {

constexpr int64_t kTokens = 32;

ModelConfig sparse_config(int64_t top_k) {
  ModelConfig config;
  config.family = ModelFamily::Llama;
  config.layers = 2;
  config.d_model = 64;
  config.heads = 8;
  config.head_dim = 12;
  config.kv_lora_rank = 24;
  config.q_lora_rank = 20;
  config.qk_rope_head_dim = 4;
  config.v_head_dim = 6;
  config.vocab_size = 304;
  config.seq_len = kTokens;
  config.index_top_k = top_k;
  config.index_heads = 3;
  config.index_head_dim = 16;
  return config;
}
ModelSpec sparse_model(int64_t top_k) { return resolve_model(sparse_config(top_k), 0).value(); }

// Pairs of a query and a key that it sees in one sequence, counted one by one.
double pairs(int64_t most) {
  double count = 0.0;
  for (int64_t i = 0; i < kTokens; ++i) count += double(std::min(i + 1, most));
  return count;
}

// The work of the layer's ops of one kind, for one sequence on one rank.
std::vector<OpWork> works_of(const ModelSpec& model, OpKind kind, StageShape shape = {}) {
  shape.micro_sequences = 1;
  const Graph placed = placed_graph(layer_graph(model, 0), shape);
  std::vector<OpWork> works = op_works(fuse(placed), shard_model(model, shape), shape);
  std::erase_if(works, [&](const OpWork& work) { return work.kind != kind; });
  return works;
}

double flops_of(const HalfWork& half) {
  double flops = 0.0;
  for (const Product& product : half.products) flops += product.is_again ? 0.0 : product.flops();
  return flops;
}

TEST(SparseAttention, AttentionMeetsTheChosenKeysAndTheIndexerAllBeforeAQuery) {
  for (const int64_t top_k : {1, 7, 31, 32, 500}) {
    const ModelSpec model = sparse_model(top_k);
    const OpWork attention = works_of(model, OpKind::Attention).at(0);
    EXPECT_NEAR(attention.attention->forward_flops(), pairs(top_k) * 2.0 * 8 * (12 + 4 + 6), 1e-6)
        << top_k;
    // The mean number of keys of a query is rounded to a whole one.
    const OpWork index = works_of(model, OpKind::ChooseKeys).at(0);
    const double of_a_key = double(kTokens) * 2.0 * 3 * 16;
    EXPECT_NEAR(flops_of(index.forward) / of_a_key, pairs(kTokens) / double(kTokens), 0.5) << top_k;
    EXPECT_NEAR(flops_of(index.input_grad) / (2.0 * of_a_key), pairs(top_k) / double(kTokens), 0.5)
        << top_k;
    EXPECT_TRUE(index.weight_grad.products.empty());
    EXPECT_GT(index.forward.bytes, 0.0);
  }
}

// An indexer that chooses every key leaves attention as it is; its own products are all that is
// added.
TEST(SparseAttention, WhatChoosesAllKeysCostsItsIndexerAlone) {
  ModelSpec dense = resolve_model(
                        [] {
                          ModelConfig config = sparse_config(kTokens);
                          config.index_top_k = 0;
                          return config;
                        }(),
                        0)
                        .value();
  EXPECT_FALSE(dense.has_indexer());
  const ModelSpec all = sparse_model(kTokens), few = sparse_model(4);
  const auto attention = [](const ModelSpec& model) {
    return flops_per_token(layer_graph(model, 0), model).attention;
  };
  const OpWork index = works_of(all, OpKind::ChooseKeys).at(0);
  EXPECT_NEAR(attention(all) - attention(dense),
              (flops_of(index.forward) + flops_of(index.input_grad)) / double(kTokens), 1e-6);
  EXPECT_LT(attention(few), attention(dense));
  // A layer has wq, wk, the gain of its norm and a weight for each head.
  const int64_t indexer = 20 * 3 * 16 + 64 * 16 + 16 + 64 * 3;
  EXPECT_EQ(num_params(all) - num_params(dense), 2 * indexer);
  EXPECT_EQ(num_params(all), num_params(few));
}

// A query keeps the numbers of its keys until the backward pass. Ranks of cp have the indexer's
// keys of all tokens beside their own.
TEST(SparseAttention, WhatIsChosenIsKeptWhateverIsComputedAgain) {
  for (const int64_t top_k : {4, 500}) {
    const ModelSpec model = sparse_model(top_k);
    for (const int cp : {1, 2, 4}) {
      StageShape shape{.micro_sequences = 2, .compute = DType::BF16};
      shape.cp = cp;
      const Graph graph = fuse(placed_graph(layer_graph(model, 0), shape));
      int64_t kept = 0, keys = 0;
      for (const Op& op : graph.ops) {
        if (op.kind != OpKind::ChooseKeys) continue;
        for (const OpTensor& tensor : op_tensors(graph, op, shard_model(model, shape), shape)) {
          const int64_t bytes = tensor.shape.num_elements() * size_of(tensor.dtype);
          if (tensor.lifetime == Lifetime::Kept) kept += bytes;
          if (tensor.lifetime == Lifetime::Constant) keys += bytes;
        }
      }
      EXPECT_EQ(kept, 2 * kTokens / cp * std::min(top_k, kTokens) * 4) << cp;
      EXPECT_EQ(keys, cp == 1 ? 0 : 2 * kTokens * 16 * (2 + 4)) << cp;
    }
  }
}

TEST(SparseAttention, LiesOverEveryMeshButNotByHeads) {
  const ModelSpec model = sparse_model(8);
  for (const int tp : {1, 2, 4}) {
    for (const int cp : {1, 2, 4}) {
      for (const bool is_split : {false, true}) {
        StageShape shape{.micro_sequences = 2};
        shape.tp = tp;
        shape.cp = cp;
        shape.sequence_parallel = is_split && tp > 1;
        EXPECT_TRUE(check_placements(model, whole_model(model), shape).ok()) << tp << " " << cp;
        shape.context_exchange = ContextExchange::AllToAll;
        const Status by_heads = check_placements(model, whole_model(model), shape);
        const bool has_enough = tp * cp <= 8;
        EXPECT_EQ(by_heads.ok(), cp == 1) << tp << " " << cp;
        if (cp > 1 && has_enough) {
          EXPECT_NE(by_heads.error().message.find("model.index_top_k"), std::string::npos);
        }
      }
    }
  }
}

TEST(SparseAttention, WhatCannotHaveAnIndexerIsRefused) {
  const auto refusal = [](auto&& change) {
    ModelConfig config = sparse_config(8);
    change(config);
    const Result<ModelSpec> model = resolve_model(config, 0);
    return model.ok() ? std::string() : model.error().message;
  };
  const auto says = [](const std::string& text, const char* words) {
    return text.find(words) != std::string::npos;
  };
  EXPECT_EQ(refusal([](ModelConfig&) {}), "");
  EXPECT_PRED2(says, refusal([](ModelConfig& m) { m.index_heads = 0; }), "model.index_heads");
  EXPECT_PRED2(says, refusal([](ModelConfig& m) { m.index_head_dim = 2; }),
               "model.qk_rope_head_dim = 4");
  EXPECT_PRED2(says, refusal([](ModelConfig& m) { m.window = 4; }), "model.index_top_k chooses");
  EXPECT_PRED2(says, refusal([](ModelConfig& m) {
                 m.kv_lora_rank = m.q_lora_rank = m.qk_rope_head_dim = m.v_head_dim = 0;
               }),
               "model.kv_lora_rank");
  const Status runs = check_runnable(sparse_model(8));
  ASSERT_FALSE(runs.ok());
  EXPECT_EQ(runs.error().kind, ErrorKind::Usage);
  EXPECT_EQ(runs.error().message.rfind("model.index_top_k = 8", 0), 0u);
  EXPECT_PRED2(says, runs.error().message, "set model.index_top_k = 0");
}

}  // namespace
}  // namespace trireme
