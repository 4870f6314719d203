#include "memory/stage_tables.h"

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

// Bytes per token of a layer that Korthikanti et al. (2022, table 2) give for 16-bit numbers, over
// t tensor-parallel ranks: 10 of the 34 h lie on the residual stream, which sequence parallelism
// splits too; attention's scores are 5 a s. What is not kept here is taken off: the dropout masks
// (a byte each, drawn again) and the scores, in whose place the tiled softmax keeps one number a
// head. Nor does the paper count the statistics of the two norms.
double published_bytes_per_token(const ModelSpec& model, int t, bool sequence,
                                 Recompute recompute) {
  const double h = double(model.d_model), a = double(model.heads);
  const double split = sequence ? t : 1;
  if (recompute == Recompute::Full) return 2 * h / split;
  const double published = h * (10.0 / split + 24.0 / t);
  const double masks = 2 * h / split;
  const double statistics = 16.0 / split + 4 * a / t;
  // Selective recomputation goes further than the paper's, which leaves out the scores alone: the
  // norms' outputs and the activation function's are made again.
  const double made_again = recompute == Recompute::Selective ? 4 * h / split + 8 * h / t : 0.0;
  return published - masks + statistics - made_again;
}

TEST(StageTables, ActivationsOfALayerFollowThePublishedForms) {
  struct Published {  // 22B, 175B, 530B and 1T of table 3
    int64_t heads, d_model;
  };
  for (const Published published : {Published{64, 6144}, {96, 12288}, {128, 20480}, {160, 25600}}) {
    ModelConfig config;
    config.layers = 3;
    config.d_model = published.d_model;
    config.heads = published.heads;
    config.vocab_size = 51200;
    config.seq_len = 2048;
    config.dropout = 0.1;
    const ModelSpec model = *resolve_model(config, 0);
    for (const int t : {1, 2, 4, 8}) {
      for (const bool sequence : {false, true}) {
        for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
          StageShape shape{4, DType::BF16, recompute};
          shape.tp = t;
          shape.sequence_parallel = sequence && t > 1;
          const TensorTable saved = stage_tables(model, whole_model(model), shape).saved;
          EXPECT_EQ(double(layer_bytes(saved)),
                    4.0 * 2048 * published_bytes_per_token(model, t, sequence, recompute))
              << published.d_model << " tp " << t << " sequence " << sequence;
        }
      }
    }
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

TEST(StageTables, RowsOfLogitsBeginAtCacheLines) {
  for (const int64_t vocab_size : {65, 256, 50257}) {
    ModelSpec model = model_of(ModelFamily::Gpt2);
    model.vocab_size = vocab_size;
    for (const DType compute : {DType::F32, DType::BF16}) {
      const StageTables tables = stage_tables(model, whole_model(model), {2, compute});
      std::vector<TensorSpec> logits = {tables.scratch.at("head.logits_tile_tV")};
      if (compute == DType::BF16) logits.push_back(tables.saved.at("head.dlogits_TV"));
      for (const TensorSpec& tensor : logits) {
        const int64_t columns = tensor.shape[1], line = kTensorAlignment / size_of(tensor.dtype);
        EXPECT_EQ(columns % line, 0) << tensor.name;
        EXPECT_GE(columns, vocab_size);
        EXPECT_LT(columns, vocab_size + 32);
      }
    }
  }
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
    for (const char* name : {"dmlp.w_up_TF", "dnorm2_TC", "dattn.wq_THD", "dnorm1_TC"}) {
      EXPECT_TRUE(joint.scratch.contains(name));
      EXPECT_FALSE(split.scratch.contains(name));
      EXPECT_TRUE(split.weight_grad.contains(std::string("layers.1.") + name));
    }
    EXPECT_EQ(split.weight_grad.contains("layers.1.dattn.residual_dropout_TC"), dropout > 0.0);
    EXPECT_EQ(split.saved.bytes(), joint.saved.bytes());
  }
}

}  // namespace
}  // namespace trireme
