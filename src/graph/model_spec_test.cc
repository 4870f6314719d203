#include "schema/model_spec.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/param_table.h"
#include "graph/work.h"

namespace trireme {
namespace {

ModelConfig gpt2(int64_t layers, int64_t d_model, int64_t heads, int64_t vocab_size,
                 int64_t seq_len) {
  ModelConfig config;
  config.layers = layers;
  config.d_model = d_model;
  config.heads = heads;
  config.vocab_size = vocab_size;
  config.seq_len = seq_len;
  return config;
}

ModelConfig llama(int64_t layers, int64_t d_model, int64_t heads, int64_t kv_heads, int64_t d_ff,
                  int64_t vocab_size) {
  ModelConfig config = gpt2(layers, d_model, heads, vocab_size, 8192);
  config.family = ModelFamily::Llama;
  config.kv_heads = kv_heads;
  config.d_ff = d_ff;
  config.tied_head = false;
  return config;
}

// Karpathy's microgpt: no biases, no gains, a norm behind the embedding and none before the head.
ModelConfig microgpt() {
  ModelConfig config = gpt2(1, 16, 4, 27, 16);
  config.norm = NormChoice::RmsNorm;
  config.activation = ActivationChoice::Relu;
  config.bias = false;
  config.norm_gain = false;
  config.embedding_norm = true;
  config.final_norm = false;
  config.tied_head = false;
  return config;
}

ModelSpec resolved(const ModelConfig& config) {
  Result<ModelSpec> model = resolve_model(config, 0);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return *model;
}

TEST(ModelSpec, HasThePublishedNumberOfParameters) {
  const struct {
    const char* name;
    ModelConfig config;
    int64_t params;
  } models[] = {
      {"microgpt", microgpt(), 4192},
      {"gpt2-124m", gpt2(12, 768, 12, 50257, 1024), 124'439'808},
      {"gpt2-355m", gpt2(24, 1024, 16, 50257, 1024), 354'823'168},
      {"gpt2-774m", gpt2(36, 1280, 20, 50257, 1024), 774'030'080},
      {"gpt2-1.5b", gpt2(48, 1600, 25, 50257, 1024), 1'557'611'200},
      {"gpt3-175b", gpt2(96, 12288, 96, 50257, 2048), 174'604'259'328},
      {"llama2-7b", llama(32, 4096, 32, 32, 11008, 32000), 6'738'415'616},
      {"llama3-8b", llama(32, 4096, 32, 8, 14336, 128256), 8'030'261'248},
      {"llama3-70b", llama(80, 8192, 64, 8, 28672, 128256), 70'553'706'496},
      {"llama3-405b", llama(126, 16384, 128, 8, 53248, 128256), 405'853'388'800},
  };
  for (const auto& model : models) {
    EXPECT_EQ(num_params(resolved(model.config)), model.params) << model.name;
  }
}

// Narayanan et al. 2021 count 72 B s L h^2 (1 + s/6h + V/12Lh) for forward and backward; a causal
// query meets (s + 1) / 2 of the s keys.
TEST(ModelSpec, FlopsOfGpt2FollowTheClosedForm) {
  for (const int64_t L : {1, 4, 48}) {
    for (const int64_t h : {128, 1600}) {
      for (const int64_t s : {1, 64, 2048}) {
        const double V = 50257;
        const ModelFlops flops = model_flops_per_token(resolved(gpt2(L, h, 4, int64_t(V), s)));
        const double closed_form =
            72.0 * L * h * h * (1.0 + (s + 1.0) / (12.0 * h) + V / (12.0 * L * h));
        EXPECT_NEAR(flops.total() / closed_form, 1.0, 1e-12) << L << ' ' << h << ' ' << s;
      }
    }
  }
}

// Six FLOPs per weight that multiplies: every matrix but the embedding tables, and a tied head's.
TEST(ModelSpec, MatmulFlopsAreSixPerMultiplyingWeight) {
  for (const ModelConfig& config :
       {microgpt(), gpt2(3, 64, 4, 101, 32), llama(2, 64, 8, 2, 96, 77)}) {
    const ModelSpec model = resolved(config);
    double weights = 0;
    for (const ParamSpec& param : param_table(model, whole_model(model))) {
      const bool is_lookup = param.name.starts_with("embedding.") &&
                             !(model.tied_head && param.name == "embedding.tokens");
      if (param.shape.rank() == 2 && !is_lookup) weights += double(param.shape.num_elements());
    }
    EXPECT_DOUBLE_EQ(model_flops_per_token(model).matmul, 6.0 * weights);
  }
}

TEST(ModelSpec, StagesHoldTheParametersOfTheWholeModelInItsOrder) {
  for (const bool tied : {true, false}) {
    ModelConfig config = gpt2(5, 32, 4, 61, 16);
    config.tied_head = tied;
    const ModelSpec model = resolved(config);
    std::vector<std::string> whole;
    for (const ParamSpec& param : param_table(model, whole_model(model))) {
      whole.push_back(param.name);
    }
    for (int64_t first_of_second = 1; first_of_second < model.layers; ++first_of_second) {
      const StageSpec stages[] = {{0, first_of_second, true, false},
                                  {first_of_second, model.layers - first_of_second, false, true}};
      std::vector<std::string> joined;
      for (const StageSpec& stage : stages) {
        for (const ParamSpec& param : param_table(model, stage)) joined.push_back(param.name);
      }
      if (tied) {  // the last stage has its own copy of the table
        EXPECT_EQ(joined.back(), "embedding.tokens");
        joined.pop_back();
      }
      EXPECT_EQ(joined, whole);
    }
  }
}

TEST(ModelSpec, DecaysMatricesOnlyAndNamesEveryParameterOnce) {
  for (const ModelConfig& config :
       {microgpt(), gpt2(2, 32, 4, 61, 16), llama(2, 64, 8, 2, 96, 77)}) {
    const ModelSpec model = resolved(config);
    std::set<std::string> names;
    for (const ParamSpec& param : param_table(model, whole_model(model))) {
      EXPECT_TRUE(names.insert(param.name).second) << param.name;
      EXPECT_EQ(param.decay, param.shape.rank() == 2) << param.name;
      EXPECT_EQ(param.init == ParamInit::Normal, param.shape.rank() == 2) << param.name;
    }
  }
}

TEST(ModelSpec, Mixtral8x7BHasItsPublishedTotalAndActiveParameters) {
  ModelConfig config = llama(32, 4096, 32, 8, 14336, 32000);
  config.family = ModelFamily::Moe;
  config.experts = 8;
  config.top_k = 2;
  const ModelSpec model = resolved(config);
  EXPECT_EQ(num_params(model), 46702792704);
  EXPECT_EQ(num_active_params(model), 12879925248);
  // Matrices that multiply: all that is active but the embedding and the norms.
  const double weights = 12879925248.0 - 32000.0 * 4096 - 65.0 * 4096;
  EXPECT_DOUBLE_EQ(model_flops_per_token(model).matmul, 6.0 * weights);
}

ModelConfig deepseek_moe_16b() {
  ModelConfig config = llama(28, 2048, 16, 16, 1408, 102400);
  config.family = ModelFamily::Moe;
  config.experts = 64;
  config.top_k = 6;
  config.shared_experts = 2;
  config.dense_layers = 1;
  config.dense_d_ff = 10944;
  return config;
}

// Dai et al. 2024: 16.4 billion parameters, of which a token uses 2.8 billion.
TEST(ModelSpec, DeepSeekMoe16BWithItsDenseFirstLayerHasItsPublishedParameters) {
  const ModelSpec model = resolved(deepseek_moe_16b());
  EXPECT_EQ(num_params(model), 16375728128);
  EXPECT_EQ(num_active_params(model), 2828650496);
  const double weights = 2828650496.0 - 102400.0 * 2048 - 57.0 * 2048;
  EXPECT_DOUBLE_EQ(model_flops_per_token(model).matmul, 6.0 * weights);
}

// However a model is cut into stages, its layers are those of its kinds, in order.
TEST(ModelSpec, TheRunsOfConsecutiveStagesAreTheLayersOfTheModel) {
  ModelConfig config = deepseek_moe_16b();
  config.layers = 5;
  for (config.dense_layers = 0; config.dense_layers < 5; ++config.dense_layers) {
    config.dense_d_ff = 0;
    const ModelSpec model = resolved(config);
    EXPECT_EQ(layer_kinds(model).size(), config.dense_layers == 0 ? 1u : 2u);
    for (int64_t cut = 0; cut <= model.layers; ++cut) {
      int64_t next = 0;
      for (const StageSpec& stage : {StageSpec{0, cut}, StageSpec{cut, model.layers - cut}}) {
        for (const LayerRun& run : layer_runs(model, stage)) {
          EXPECT_EQ(run.first, next);
          next += run.count;
          for (int64_t layer = run.first; layer < next; ++layer) {
            EXPECT_EQ(model.has_experts(layer),
                      model.has_experts(layer_kinds(model)[size_t(run.kind)].first));
          }
        }
      }
      EXPECT_EQ(next, model.layers);
    }
  }
}

TEST(ModelSpec, ExpertsTakeEveryVisitOrTheirCapacity) {
  ModelConfig config = llama(2, 64, 8, 2, 96, 77);
  config.family = ModelFamily::Moe;
  config.experts = 6;
  config.top_k = 2;
  EXPECT_EQ(resolved(config).expert_rows(100), 200);
  config.capacity_factor = 1.1;
  EXPECT_EQ(resolved(config).expert_capacity(100), 37);
  EXPECT_EQ(resolved(config).expert_rows(100), 200);  // 6 * 37 > 200
  config.capacity_factor = 0.5;
  EXPECT_EQ(resolved(config).expert_rows(100), 6 * 17);
}

TEST(ModelSpec, RefusesExpertsThatCannotBeWithTheKeyInTheMessage) {
  const std::pair<const char*, void (*)(ModelConfig&)> wrong[] = {
      {"model.experts", [](ModelConfig& config) { config.experts = 0; }},
      {"model.top_k", [](ModelConfig& config) { config.top_k = 9; }},
      {"model.top_k",
       [](ModelConfig& config) {
         config.expert_groups = 4;
         config.top_k = 3;
       }},
      {"model.expert_groups", [](ModelConfig& config) { config.expert_groups = 3; }},
      {"model.top_groups", [](ModelConfig& config) { config.top_groups = 2; }},
      {"model.activation", [](ModelConfig& config) { config.activation = ActivationChoice::Relu; }},
      {"model.dense_layers", [](ModelConfig& config) { config.dense_layers = 2; }},
      {"model.dense_layers", [](ModelConfig& config) { config.dense_layers = -1; }},
      {"model.dense_d_ff", [](ModelConfig& config) { config.dense_d_ff = 64; }},
      {"model.z_loss",
       [](ModelConfig& config) {
         config.router = RouterType::Sigmoid;
         config.z_loss = 0.1;
       }},
  };
  for (const auto& [key, change] : wrong) {
    ModelConfig config = llama(2, 64, 8, 2, 96, 77);
    config.family = ModelFamily::Moe;
    change(config);
    const Result<ModelSpec> model = resolve_model(config, 0);
    ASSERT_FALSE(model.ok()) << key;
    EXPECT_NE(model.error().message.find(key), std::string::npos) << model.error().message;
  }
}

TEST(ModelSpec, RefusesWhatCannotBeWithTheKeyInTheMessage) {
  const auto message_of = [](const ModelConfig& config, int64_t tokenizer_vocab_size = 0) {
    const Result<ModelSpec> model = resolve_model(config, tokenizer_vocab_size);
    if (model.ok()) return std::string("accepted");
    EXPECT_EQ(model.error().kind, ErrorKind::Usage);
    return model.error().message;
  };
  ModelConfig config = gpt2(2, 30, 4, 61, 16);
  EXPECT_NE(message_of(config).find("model.heads"), std::string::npos);
  config = llama(2, 64, 8, 3, 96, 77);
  EXPECT_NE(message_of(config).find("model.kv_heads"), std::string::npos);
  config = llama(2, 24, 8, 8, 96, 77);
  EXPECT_NE(message_of(config).find("model.heads"), std::string::npos);
  config = gpt2(2, 32, 4, 0, 16);
  EXPECT_NE(message_of(config).find("model.vocab_size"), std::string::npos);
  config = gpt2(2, 32, 4, 61, 16);
  EXPECT_NE(message_of(config, 62).find("model.vocab_size"), std::string::npos);
  config.dropout = 1.0;
  EXPECT_NE(message_of(config).find("model.dropout"), std::string::npos);
  config = gpt2(2, 32, 4, 61, 16);
  for (int64_t ModelConfig::*size :
       {&ModelConfig::layers, &ModelConfig::d_model, &ModelConfig::heads, &ModelConfig::seq_len}) {
    for (const int64_t bad : {int64_t{0}, int64_t{-1}}) {
      config = gpt2(2, 32, 4, 61, 16);
      config.*size = bad;
      EXPECT_NE(message_of(config).find("model."), std::string::npos);
    }
  }
}

ModelConfig latent_llama() {
  ModelConfig config = llama(2, 64, 8, 0, 96, 77);
  config.head_dim = 6;
  config.kv_lora_rank = 24;
  config.q_lora_rank = 20;
  config.qk_rope_head_dim = 4;
  config.v_head_dim = 10;
  return config;
}

// C Rq + Rq H (D + P) + C (R + P) + R H (D + V) + H V C + Rq + R of a layer (Legend:
// docs/attention_variants.md).
TEST(ModelSpec, LatentAttentionHasTheParametersOfItsFormula) {
  const double C = 64, H = 8, D = 6, P = 4, V = 10, R = 24, Rq = 20;
  const ModelSpec latent = resolved(latent_llama()), plain = resolved(llama(2, 64, 8, 8, 96, 77));
  const double of_layer =
      C * Rq + Rq * H * (D + P) + C * (R + P) + R * H * (D + V) + H * V * C + Rq + R;
  EXPECT_EQ(double(num_params(latent)),
            double(num_params(plain)) - 2.0 * 4.0 * C * C + 2.0 * of_layer);
}

// A module has a layer, three gains and two matrices that join its inputs, and multiplies by the
// head once more.
TEST(ModelSpec, AModuleAheadHasALayerAndItsJoin) {
  const double C = 64, V = 304, depth = 2;
  ModelConfig config = llama(3, 64, 8, 4, 96, 304);
  const ModelSpec base = resolved(config);
  config.layers = 4;
  const ModelSpec longer = resolved(config);
  config.layers = 3;
  config.mtp_depth = 2;
  const ModelSpec model = resolved(config);
  const auto params = [](const ModelSpec& of) { return double(num_params(of)); };
  EXPECT_EQ(params(model) - params(base),
            depth * (params(longer) - params(base) + 2 * C * C + 3 * C));
  EXPECT_EQ(num_params(without_modules(model)), num_params(base));
  const ModelFlops flops = model_flops_per_token(model), of_base = model_flops_per_token(base);
  const ModelFlops of_longer = model_flops_per_token(longer);
  EXPECT_EQ(flops.matmul - of_base.matmul,
            depth * (of_longer.matmul - of_base.matmul + 6 * (2 * C * C + C * V)));
  EXPECT_EQ(flops.attention - of_base.attention, depth * (of_longer.attention - of_base.attention));
}

TEST(ModelSpec, WhatAttentionDoesNotHaveIsNamed) {
  using Change = void (*)(ModelConfig&);
  const std::pair<const char*, Change> refused[] = {
      {"model.qk_rope_head_dim", [](ModelConfig& m) { m.qk_rope_head_dim = 3; }},
      {"model.kv_heads", [](ModelConfig& m) { m.kv_heads = 2; }},
      {"model.qk_norm", [](ModelConfig& m) { m.qk_norm = true; }},
      {"model.lora_rank", [](ModelConfig& m) { m.lora_rank = 21; }},
      {"model.lora_targets", [](ModelConfig& m) { m.lora_rank = 2, m.lora_targets = "k"; }},
      {"model.lora_targets", [](ModelConfig& m) { m.lora_rank = 2, m.lora_targets = "o,q"; }},
      {"model.lora_targets",
       [](ModelConfig& m) { m.q_lora_rank = 0, m.lora_rank = 2, m.lora_targets = "q_a"; }},
      {"model.kv_lora_rank", [](ModelConfig& m) { m.family = ModelFamily::Gpt2; }},
      {"model.kv_lora_rank", [](ModelConfig& m) { m.kv_lora_rank = 1022; }},
      {"model.q_lora_rank", [](ModelConfig& m) { m.kv_lora_rank = 0; }},
      {"model.rope_mscale", [](ModelConfig& m) { m.rope_mscale = 0.5; }},
      {"model.window", [](ModelConfig& m) { m.window = -1; }},
  };
  ASSERT_TRUE(resolve_model(latent_llama(), 0).ok());
  for (const auto& [key, change] : refused) {
    ModelConfig config = latent_llama();
    change(config);
    const Result<ModelSpec> model = resolve_model(config, 0);
    ASSERT_FALSE(model.ok()) << key;
    EXPECT_TRUE(model.error().message.starts_with(key)) << model.error().message;
  }
  ModelConfig config = llama(2, 64, 8, 4, 96, 77);
  config.qk_norm = true;
  config.norm = NormChoice::LayerNorm;
  EXPECT_FALSE(resolve_model(config, 0).ok());
}

}  // namespace
}  // namespace trireme
