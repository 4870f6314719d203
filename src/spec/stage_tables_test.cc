#include "spec/stage_tables.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme {
namespace {

ModelSpec model_of(ModelFamily family, double dropout = 0.0) {
  ModelConfig config;
  config.family = family;
  config.layers = 3;
  config.d_model = 64;
  config.heads = 4;
  config.kv_heads = family == ModelFamily::Gpt2 ? 4 : 2;
  config.vocab_size = 128;
  config.seq_len = 32;
  config.tied_head = family == ModelFamily::Gpt2;
  config.dropout = dropout;
  return *resolve_model(config, 0);
}

int64_t layer_bytes(const TensorTable& table) {
  int64_t bytes = 0;
  for (const TensorSpec& tensor : table.tensors()) {
    if (tensor.name.starts_with("layers.1.")) bytes += tensor.bytes();
  }
  return bytes;
}

// The counterpart of Korthikanti et al. 2022's s b h (34 + 5 a s / h): without stored scores and
// dropout masks, a gpt2 layer in bf16 keeps 16 C numbers per token, its norms' statistics and the
// log-sum-exp of every head.
TEST(StageTables, ActivationsOfALayerFollowTheClosedForm) {
  const ModelSpec model = model_of(ModelFamily::Gpt2);
  const int64_t C = model.d_model;
  for (const int64_t micro : {1, 4}) {
    const int64_t T = micro * model.seq_len;
    const int64_t stats = 4 * 4 * T + 4 * model.heads * T;
    const auto bytes = [&](Recompute recompute) {
      const StageShape shape{micro, DType::BF16, recompute};
      return layer_bytes(stage_tables(model, whole_model(model), shape).saved);
    };
    EXPECT_EQ(bytes(Recompute::None), 2 * 16 * T * C + stats);
    EXPECT_EQ(bytes(Recompute::Selective), 2 * 10 * T * C + stats);  // no norm outputs, no GELU's
    EXPECT_EQ(bytes(Recompute::Full), 2 * T * C);                    // the layer's input
  }
}

// A token's visits take the place of the dense layer's hidden units, with their inputs and where
// they go.
TEST(StageTables, ExpertsKeepTheirVisitsAndTheRoute) {
  const ModelSpec dense = model_of(ModelFamily::Llama), model = model_of(ModelFamily::Moe);
  const int64_t T = 2 * model.seq_len, A = T * model.top_k, E = model.experts;
  const auto bytes = [&](const ModelSpec& spec, Recompute recompute) {
    const StageShape shape{2, DType::BF16, recompute};
    return layer_bytes(stage_tables(spec, whole_model(spec), shape).saved);
  };
  const int64_t route = 4 * (T * E + T + 3 * T * model.top_k + 2 * A + 2 * (E + 1) + 2 * E);
  const int64_t inputs = 2 * A * model.d_model, hidden = 2 * model.d_ff;
  EXPECT_EQ(bytes(model, Recompute::None),
            bytes(dense, Recompute::None) + route + inputs + 3 * (A - T) * hidden);
  EXPECT_EQ(bytes(model, Recompute::Selective),
            bytes(dense, Recompute::Selective) + route + inputs + 2 * (A - T) * hidden);
  EXPECT_EQ(bytes(model, Recompute::Full), bytes(dense, Recompute::Full) + route);
}

TEST(StageTables, WhatIsNotSavedIsScratchOfOneLayer) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    const ModelSpec model = model_of(family);
    const auto tables_of = [&](Recompute recompute) {
      return stage_tables(model, whole_model(model), {2, DType::BF16, recompute});
    };
    const StageTables stored = tables_of(Recompute::None);
    for (const Recompute recompute : {Recompute::Selective, Recompute::Full}) {
      const StageTables recomputed = tables_of(recompute);
      for (const TensorSpec& tensor : stored.saved.tensors()) {
        if (!tensor.name.starts_with("layers.1.")) continue;
        const std::string local = tensor.name.substr(std::string("layers.1.").size());
        EXPECT_NE(recomputed.saved.contains(tensor.name), recomputed.scratch.contains(local))
            << tensor.name;
      }
      EXPECT_LT(recomputed.saved.bytes(), stored.saved.bytes());
      EXPECT_EQ(recomputed.params.bytes(), stored.params.bytes());
      EXPECT_EQ(recomputed.grads.bytes(), stored.grads.bytes());
    }
  }
}

TEST(StageTables, GradientsAndStateMirrorTheParameters) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama}) {
    const ModelSpec model = model_of(family);
    const std::vector<ParamSpec> params = param_table(model, whole_model(model));
    for (const DType compute : {DType::F32, DType::BF16}) {
      const StageTables tables = stage_tables(model, whole_model(model), {2, compute});
      ASSERT_EQ(tables.params.tensors().size(), params.size());
      for (const ParamSpec& param : params) {
        EXPECT_EQ(tables.params.at(param.name).dtype, compute);
        EXPECT_EQ(tables.grads.at(param.name).dtype, DType::F32);
        EXPECT_EQ(tables.grads.at(param.name).shape, param.shape);
        EXPECT_EQ(tables.optimizer.contains("master/" + param.name), compute != DType::F32);
        EXPECT_TRUE(tables.optimizer.contains("exp_avg/" + param.name));
        EXPECT_TRUE(tables.optimizer.contains("exp_avg_sq/" + param.name));
      }
    }
  }
}

// One matmul reads q, k and v, another gate and up: no gap may lie between them.
TEST(StageTables, AdjoiningParametersHaveNoGap) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama}) {
    ModelSpec model = model_of(family);
    model.d_model = 20;  // rows and biases whose bytes are no multiples of the border
    model.head_dim = 5;
    model.d_ff = 27;
    for (const DType compute : {DType::F32, DType::BF16}) {
      const StageTables tables = stage_tables(model, whole_model(model), {1, compute});
      for (const TensorTable* table : {&tables.params, &tables.grads}) {
        const TensorSpec& q = table->at("layers.0.attn.wq");
        const TensorSpec& k = table->at("layers.0.attn.wk");
        const TensorSpec& v = table->at("layers.0.attn.wv");
        EXPECT_EQ(q.offset + q.bytes(), k.offset);
        EXPECT_EQ(k.offset + k.bytes(), v.offset);
      }
    }
  }
}

TEST(StageTables, TiedUsesApartAddExactlyOneGradient) {
  const ModelSpec model = model_of(ModelFamily::Gpt2);
  StageShape shape{2, DType::BF16};
  const TensorTable together = stage_tables(model, whole_model(model), shape).grads;
  shape.tied_use_apart = true;
  const TensorTable apart = stage_tables(model, whole_model(model), shape).grads;
  EXPECT_EQ(apart.tensors().size(), together.tensors().size() + 1);
  EXPECT_EQ(apart.at("embedding.tokens@head").shape, (Shape{model.vocab_size, model.d_model}));
}

// What W reads lives per micro-batch when B and W are apart, in one layer's scratch otherwise.
TEST(StageTables, SplittingTheBackwardMovesGradientsFromScratchToTheMicrobatch) {
  for (const double dropout : {0.0, 0.1}) {
    const ModelSpec model = model_of(ModelFamily::Gpt2, dropout);
    StageShape shape{2, DType::BF16};
    const StageTables joint = stage_tables(model, whole_model(model), shape);
    shape.split_backward = true;
    const StageTables split = stage_tables(model, whole_model(model), shape);
    EXPECT_TRUE(joint.weight_grad.tensors().empty());
    for (const char* name : {"du_TU", "dh2_TC", "dx1_TC", "dqkv_TD", "dh1_TC"}) {
      EXPECT_TRUE(joint.scratch.contains(name));
      EXPECT_FALSE(split.scratch.contains(name));
      EXPECT_TRUE(split.weight_grad.contains(std::string("layers.1.") + name));
    }
    EXPECT_EQ(split.weight_grad.contains("layers.1.dp1_TC"), dropout > 0.0);
    EXPECT_EQ(split.saved.bytes(), joint.saved.bytes());
  }
}

}  // namespace
}  // namespace trireme
