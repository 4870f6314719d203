#include <gtest/gtest.h>

#include <filesystem>

#include "cli/repository.h"
#include "config/config_load.h"
#include "graph/param_table.h"
#include "schema/model_spec.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const std::string kModels = (kRoot / "models").string();

ModelSpec model_of(const std::string& preset) {
  const auto loaded =
      load_config({.overrides = {"model.preset=" + preset}, .model_folders = {kModels}});
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  const auto model = resolve_model(loaded.value().config.model, 0);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return model.value();
}
int64_t params_of(const std::string& preset) { return num_params(model_of(preset)); }

TEST(ModelFiles, HaveThePublishedNumberOfParameters) {
  const std::pair<const char*, int64_t> published[] = {
      {"microgpt", 4192},
      {"gpt2-124m", 124439808},
      {"gpt2-355m", 354823168},
      {"gpt2-774m", 774030080},
      {"gpt2-1.5b", 1557611200},
      {"llama2-7b", 6738415616},
      {"llama3-8b", 8030261248},
      {"llama3-70b", 70553706496},
      {"llama3-405b", 405853388800},
      {"mixtral-8x7b", 46702792704},
      {"deepseek-moe-16b", 16375728128},
      {"qwen3-0.6b", 596049920},
      {"qwen3-8b", 8190735360},
      {"qwen3-30b-a3b", 30532122624},
      {"qwen3-235b-a22b", 235093634560},
      {"mistral-7b", 7241732096},
      // From llm-foundry's throughput tables, with 2,048 tokens.
      {"mpt-125m", 125311488},
      {"mpt-30b", 29975214080},
      {"mpt-70b", 64862437376},
  };
  for (const auto& [name, params] : published) EXPECT_EQ(params_of(name), params) << name;
}

// The published files hold 671 billion parameters and 14 billion of the module, which has copies of
// embedding and head.
TEST(ModelFiles, DeepSeekV3HasItsModuleBesideThePublishedModel) {
  const ModelSpec model = model_of("deepseek-v3");
  EXPECT_EQ(model.mtp_depth, 1);
  // Each router has a bias of 256 numbers beside the published 671,026,404,352.
  const int64_t main = num_params(without_modules(model));
  EXPECT_EQ(main, 671026404352 + 58 * 256);
  const int64_t copies = 2 * model.vocab_size * model.d_model;
  EXPECT_NEAR(double(num_params(model) + copies), 685e9, 1e9);
  EXPECT_NEAR(double(num_params(model) - main), 11.5e9, 0.2e9);
}

TEST(ModelFiles, LieWithinAPercentOfTheirNamesWhereOnlyThatIsPublished) {
  const std::pair<const char*, double> rounded[] = {
      {"gpt3-175b", 175e9},         {"gpt3-6.7b", 6.66e9},        {"timecapsule-16m", 16e6},
      {"megatron-1.7b", 1.65e9},    {"megatron-7.5b", 7.47e9},    {"megatron-39.1b", 39.1e9},
      {"megatron-145.6b", 145.6e9}, {"megatron-529.6b", 529.6e9}, {"megatron-1008b", 1008e9},
      {"solar-open-100b", 102.6e9}, {"turing-nlg", 17.2e9},
  };
  for (const auto& [name, params] : rounded) {
    EXPECT_NEAR(double(params_of(name)), params, 0.011 * params) << name;
  }
}

// Published in billions: 37 of 671, 32 of 1,000 and so on. Kimi K2 has "1T".
TEST(ModelFiles, TokensUseThePublishedNumberOfParameters) {
  const std::pair<const char*, double> published[] = {
      {"qwen3-30b-a3b", 3.3e9}, {"qwen3-235b-a22b", 22e9}, {"deepseek-v3", 37e9},
      {"kimi-k2", 32e9},        {"solar-open-100b", 12e9},
  };
  for (const auto& [name, params] : published) {
    EXPECT_NEAR(double(num_active_params(without_modules(model_of(name)))), params, 0.03 * params)
        << name;
  }
  EXPECT_NEAR(double(params_of("kimi-k2")), 1e12, 0.03e12);
  EXPECT_NEAR(double(params_of("bert-large")), 0.34e9, 0.02e9);  // encoders have more
}

// Published are 744 and 40 billion. The table of the embedding, of which a token reads one row, is
// no part of the 40.
TEST(ModelFiles, Glm5HasThePublishedNumbersOfParametersWithItsIndexer) {
  const ModelSpec model = model_of("glm-5");
  EXPECT_NEAR(double(num_params(model)), 744e9, 0.2e9);
  const double table = double(model.vocab_size) * double(model.d_model);
  EXPECT_NEAR(double(num_active_params(model)) - table, 40e9, 1e9);
  ModelSpec dense = model;
  dense.index_top_k = dense.index_heads = dense.index_head_dim = 0;
  // wq, wk, the gain of its norm, and one weight for each head
  const int64_t indexer = 2048 * 32 * 128 + 6144 * 128 + 128 + 6144 * 32;
  EXPECT_EQ(num_params(model) - num_params(dense), 78 * indexer);
}

// Lectures show 5.12, 24, 275 and 2,800 GB, 16 bytes for each of 0.32, 1.5, 17.2 and 175 billion
// parameters (trireme reproduce lecture-models).
TEST(ModelFiles, HoldTheStateOfTheLecturesTable) {
  const std::pair<const char*, double> published[] = {
      {"bert-large", 5.12e9}, {"gpt2-1.5b", 24e9}, {"turing-nlg", 275e9}, {"gpt3-175b", 2800e9}};
  for (const auto& [name, bytes] : published) {
    EXPECT_NEAR(16.0 * double(params_of(name)), bytes, 0.05 * bytes) << name;
  }
}

TEST(ModelFiles, EveryFileLoadsOnItsOwn) {
  const auto names = preset_names({kModels});
  EXPECT_GE(names.size(), 30u);
  for (const std::string& name : names) EXPECT_GT(params_of(name), 0) << name;
}

// configs/tiny-*.toml promise that every combination of degrees up to 4 works.
TEST(ConfigFiles, TinyConfigurationsAllowEveryDegreeUpToFour) {
  for (const char* name :
       {"tiny-gpt2.toml", "tiny-llama.toml", "tiny-moe.toml", "tiny-latent.toml"}) {
    const std::string path = (kRoot / "configs" / name).string();
    for (const char* dp : {"1", "2", "4"}) {
      for (const char* tp : {"1", "2", "4"}) {
        for (const char* pp : {"1", "2", "3", "4"}) {
          for (const char* cp : {"1", "2", "4"}) {
            using std::string;
            const auto loaded = load_config(
                {.files = {path},
                 .overrides = {string("parallel.dp=") + dp, string("parallel.tp=") + tp,
                               string("parallel.pp=") + pp, string("parallel.cp=") + cp}});
            ASSERT_TRUE(loaded.ok()) << loaded.error().message;
          }
        }
      }
    }
  }
}

TEST(ConfigFiles, ExpertsLieOnUpToFourRanksOfDataParallelism) {
  const std::string path = (kRoot / "configs" / "tiny-moe.toml").string();
  const auto loads = [&](int dp, int ep) {
    return load_config({.files = {path},
                        .overrides = {"parallel.dp=" + std::to_string(dp),
                                      "parallel.ep=" + std::to_string(ep)}})
        .ok();
  };
  for (const int ep : {1, 2, 4}) EXPECT_TRUE(loads(4, ep)) << ep;
  EXPECT_FALSE(loads(2, 4));
  EXPECT_FALSE(loads(3, 3));  // four experts cannot be split by 3
}

TEST(ConfigFiles, EveryFileLoads) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kRoot / "configs")) {
    if (entry.is_directory()) continue;  // configs/serving: other files, with tests of their own
    const auto loaded = load_config({.files = {entry.path().string()}});
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    ++files;
  }
  EXPECT_GE(files, 8);
}

}  // namespace
}  // namespace trireme
