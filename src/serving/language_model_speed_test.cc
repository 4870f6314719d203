#include "serving/language_model_speed.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "config/cluster_file.h"
#include "config/config_load.h"
#include "graph/param_table.h"

namespace trireme {
namespace {

const std::filesystem::path kSources =
    std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();

ModelSpec preset_of(const std::string& preset) {
  const auto loaded = load_config(
      {.overrides = {"model.preset=" + preset}, .model_folders = {(kSources / "models").string()}});
  return resolve_model(loaded.value().config.model, 0).value();
}
Hardware device_of(const std::string& cluster) {
  return load_hardware((kSources / "clusters" / (cluster + ".toml")).string()).value();
}

// A step of a dense model on a device that waits for its memory moves all weights but the table of
// tokens, and the keys and values of the context.
TEST(LanguageModelSpeed, OfDecodingIsThatOfMemory) {
  const ModelSpec model = preset_of("llama3-8b");
  const Hardware h100 = device_of("dgx-h100");
  const LanguageModelUse use{"", 1000, 200, 1};
  const LanguageModelSpeed speed = language_model_speed(model, use, h100);
  const double weights = 2.0 * (8030261248.0 - 128256.0 * 4096.0);
  const double cache_of_token = 2.0 * 32 * 2 * 8 * 128;
  const double seconds =
      (weights + 1100 * cache_of_token) / (h100.memory_bytes_per_s * h100.memory_share);
  EXPECT_NEAR(speed.decode_step_s, seconds, 1e-9 * seconds);
  EXPECT_DOUBLE_EQ(speed.weight_bytes, 2.0 * 8030261248.0);
  EXPECT_DOUBLE_EQ(speed.cache_bytes, 1200 * cache_of_token);
  EXPECT_DOUBLE_EQ(speed.requests_per_s, 1.0 / (speed.prefill_s + 200 * speed.decode_step_s));
}

// Prompts are products of many rows: they take at least the FLOPs of the layers at the peak.
TEST(LanguageModelSpeed, OfPrefillIsBoundByThePeak) {
  for (const char* name : {"llama3-8b", "qwen3-0.6b"}) {
    const ModelSpec model = preset_of(name);
    const Hardware h100 = device_of("dgx-h100");
    const LanguageModelSpeed speed = language_model_speed(model, {"", 2048, 1, 4}, h100);
    const double tables = double(model.vocab_size * model.d_model) * (model.tied_head ? 1.0 : 2.0);
    const double flops = 2.0 * 4 * 2048 * (double(num_params(model)) - tables);
    EXPECT_GT(speed.prefill_s, flops / h100.bf16_flops) << name;
    EXPECT_LT(speed.prefill_s, 4.0 * flops / h100.bf16_flops) << name;
  }
}

TEST(LanguageModelSpeed, GrowsWithTheBatchAndTheDevice) {
  for (const char* name : {"llama3-8b", "qwen3-30b-a3b"}) {
    const ModelSpec model = preset_of(name);
    const Hardware a100 = device_of("dgx-a100-80g"), h100 = device_of("dgx-h100");
    double before = 0.0, step_before = 0.0;
    for (const int64_t batch : {1, 4, 32}) {
      const LanguageModelUse use{"", 512, 256, batch};
      const LanguageModelSpeed speed = language_model_speed(model, use, h100);
      EXPECT_GT(speed.requests_per_s, before) << name;
      EXPECT_GT(speed.decode_step_s, step_before) << name;
      EXPECT_GT(speed.requests_per_s, language_model_speed(model, use, a100).requests_per_s);
      before = speed.requests_per_s;
      step_before = speed.decode_step_s;
    }
  }
}

// With very many requests every expert is read, with one request only its own.
TEST(LanguageModelSpeed, ReadsTheExpertsThatABatchVisits) {
  const ModelSpec model = preset_of("qwen3-30b-a3b");
  const Hardware h100 = device_of("dgx-h100");
  const double bytes_per_s = h100.memory_bytes_per_s * h100.memory_share;
  const double table = 2.0 * double(model.vocab_size * model.d_model);
  const auto read_bytes = [&](int64_t batch) {
    const LanguageModelUse use{"", 1, 0, batch};
    const double cache =
        double(batch) * 2.0 * double(model.layers) * double(model.k_width() + model.v_width());
    return language_model_speed(model, use, h100).decode_step_s * bytes_per_s - cache;
  };
  const double active = 2.0 * double(num_active_params(model)) - table;
  EXPECT_NEAR(read_bytes(1), active, 1e-6 * active);
  const double all = 2.0 * double(num_params(model)) - table;
  EXPECT_NEAR(read_bytes(120), all, 1e-2 * all);
}

}  // namespace
}  // namespace trireme
