#include "schema/logit_side.h"

#include <gtest/gtest.h>

#include "graph/param_table.h"

namespace trireme {
namespace {

ModelSpec model_of(ModelFamily family) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.d_model = 16;
  config.heads = 4;
  config.vocab_size = 11;
  config.seq_len = 8;
  if (family == ModelFamily::Moe) {
    config.d_ff = 8;
    config.experts = 2;
    config.top_k = 1;
  }
  return with_defaults(config, 0);
}

// Weights and biases of queries and keys, behind rotary positions or not, make the logits; nothing
// else does.
TEST(LogitSide, WeightsAndBiasesOfQueriesAndKeysHaveTheirs) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    const ModelSpec model = model_of(family);
    int num_sides = 0;
    for (const ParamSpec& param : param_table(model, whole_model(model))) {
      const bool is_query = param.name.ends_with("attn.wq") || param.name.ends_with("attn.bq");
      const bool is_key = param.name.ends_with("attn.wk") || param.name.ends_with("attn.bk");
      EXPECT_EQ(param.logit_side, is_query ? LogitSide::Query
                                  : is_key ? LogitSide::Key
                                           : LogitSide::None)
          << param.name;
      num_sides += param.logit_side == LogitSide::None ? 0 : 1;
    }
    EXPECT_EQ(num_sides, int(model.layers) * (model.bias ? 4 : 2));
  }
}

// With latents the last product of queries and the one of keys make them. The part of the keys that
// all heads share belongs to no head.
TEST(LogitSide, OfLatentAttentionTheProductsWithHeadsHaveTheirs) {
  for (const int64_t q_lora_rank : {0, 6}) {
    ModelSpec model = model_of(ModelFamily::Llama);
    model.kv_lora_rank = 8;
    model.q_lora_rank = q_lora_rank;
    model.qk_rope_head_dim = 2;
    const char* queries = q_lora_rank > 0 ? "attn.wq_up" : "attn.wq";
    for (const ParamSpec& param : param_table(model, whole_model(model))) {
      EXPECT_EQ(param.logit_side, param.name.ends_with(queries)        ? LogitSide::Query
                                  : param.name.ends_with("attn.wk_up") ? LogitSide::Key
                                                                       : LogitSide::None)
          << param.name;
    }
  }
}

}  // namespace
}  // namespace trireme
