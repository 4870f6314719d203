#include "interchange/golden_logits.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/safetensors_writer.h"
#include "interchange/hugging_face_folder.h"
#include "interchange/logits.h"

// Folders of Hugging Face with weights of a closed formula are imported, and their logits are those
// of golden_logits.h. Nothing that this program has written is read here, so an error that an
// export and an import share is found, too.
namespace trireme {
namespace {

using nlohmann::json;
using Extents = std::vector<int64_t>;
using TensorShapes = std::vector<std::pair<std::string, Extents>>;

constexpr int64_t kPositions = 12;

std::vector<int32_t> golden_tokens() {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kPositions; ++i) tokens.push_back((7 * i * i + 3 * i + 1) % 37);
  return tokens;
}

// Element i of a tensor is 0.25 u, and 1 + 0.25 u for the gain of a norm. Here u in [-1, 1) is made
// of the upper 24 bits of a hash of i and of FNV-1a of the tensor's name, so every value is exact.
std::vector<float> golden_values(const std::string& name, int64_t count) {
  uint64_t name_hash = 14695981039346656037u;
  for (const char c : name) name_hash = (name_hash ^ uint8_t(c)) * 1099511628211u;
  const double offset = name.ends_with("norm.weight") ? 1.0 : 0.0;
  std::vector<float> values;
  for (uint64_t i = 0; i < uint64_t(count); ++i) {
    uint64_t z = (name_hash + i) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 32)) * 0xD6E8FEB86659FD93u;
    z ^= z >> 32;
    values.push_back(float(offset + 0.25 * (double(z >> 40) * 0x1p-23 - 1.0)));
  }
  return values;
}

json common_config(const char* model_type) {
  return {{"model_type", model_type}, {"vocab_size", 37},       {"hidden_size", 24},
          {"num_attention_heads", 4}, {"hidden_act", "silu"},   {"max_position_embeddings", 32},
          {"torch_dtype", "float32"}, {"attention_bias", false}};
}

json with(json config, const json& more) {
  config.update(more);
  return config;
}

json qwen3_config() {
  return with(common_config("qwen3"), {{"num_hidden_layers", 2},
                                       {"num_key_value_heads", 2},
                                       {"head_dim", 10},
                                       {"intermediate_size", 40},
                                       {"rms_norm_eps", 1e-6},
                                       {"rope_theta", 1e6},
                                       {"tie_word_embeddings", true}});
}

json mistral_config() {
  return with(common_config("mistral"), {{"num_hidden_layers", 2},
                                         {"num_key_value_heads", 2},
                                         {"head_dim", 6},
                                         {"intermediate_size", 40},
                                         {"rms_norm_eps", 1e-5},
                                         {"rope_theta", 1e4},
                                         {"sliding_window", 5},
                                         {"tie_word_embeddings", false}});
}

// The first layer has no experts; there are groups of experts, and a module that the library reads
// past.
json deepseek_v3_config() {
  const json yarn = {{"type", "yarn"},
                     {"factor", 4.0},
                     {"beta_fast", 32.0},
                     {"beta_slow", 1.0},
                     {"mscale", 1.0},
                     {"mscale_all_dim", 1.0},
                     {"original_max_position_embeddings", 8}};
  const json experts = {{"moe_intermediate_size", 12},
                        {"first_k_dense_replace", 1},
                        {"n_routed_experts", 8},
                        {"num_experts_per_tok", 3},
                        {"n_shared_experts", 2},
                        {"n_group", 4},
                        {"topk_group", 2},
                        {"routed_scaling_factor", 2.5},
                        {"norm_topk_prob", true},
                        {"scoring_func", "sigmoid"},
                        {"topk_method", "noaux_tc"}};
  return with(with(common_config("deepseek_v3"), experts), {{"num_hidden_layers", 3},
                                                            {"num_key_value_heads", 4},
                                                            {"intermediate_size", 40},
                                                            {"q_lora_rank", 14},
                                                            {"kv_lora_rank", 10},
                                                            {"qk_nope_head_dim", 8},
                                                            {"qk_rope_head_dim", 6},
                                                            {"v_head_dim", 10},
                                                            {"rms_norm_eps", 1e-6},
                                                            {"rope_theta", 1e4},
                                                            {"rope_scaling", yarn},
                                                            {"tie_word_embeddings", false},
                                                            {"num_nextn_predict_layers", 1}});
}

json without_q_latent(json config) {
  config["q_lora_rank"] = nullptr;
  config["num_nextn_predict_layers"] = 0;
  return config;
}

// The tensors that the library has for a config.json.
class GoldenTensors {
 public:
  explicit GoldenTensors(const json& config) : config_(config) {
    add("model.embed_tokens", {V, C});
    add("model.norm", {C});
    if (!config.at("tie_word_embeddings")) add("lm_head", {V, C});
    const bool has_latents = config.contains("kv_lora_rank");
    const int64_t layers = of("num_hidden_layers");
    const int64_t modules = has_latents ? of("num_nextn_predict_layers") : 0;
    for (int64_t l = 0; l < layers + modules; ++l) {
      layer_ = fmt::format("model.layers.{}.", l);
      add("input_layernorm", {C});
      add("post_attention_layernorm", {C});
      has_latents ? add_latent_attention() : add_attention();
      has_latents&& l >= of("first_k_dense_replace") ? add_experts()
                                                     : add_mlp("mlp.", of("intermediate_size"));
      if (l >= layers) add_module();
    }
  }
  const TensorShapes& shapes() const { return shapes_; }

 private:
  int64_t of(const char* key) const { return config_.at(key); }
  void add(const std::string& name, const Extents& extents) {
    shapes_.emplace_back(layer_ + name + ".weight", extents);
  }
  void add_attention() {
    const int64_t heads = of("num_attention_heads"), kv_heads = of("num_key_value_heads");
    const int64_t D = of("head_dim");
    add("self_attn.q_proj", {heads * D, C});
    add("self_attn.k_proj", {kv_heads * D, C});
    add("self_attn.v_proj", {kv_heads * D, C});
    add("self_attn.o_proj", {C, heads * D});
    if (config_.at("model_type") != "qwen3") return;
    add("self_attn.q_norm", {D});
    add("self_attn.k_norm", {D});
  }
  void add_latent_attention() {
    const int64_t heads = of("num_attention_heads"), P = of("qk_rope_head_dim");
    const int64_t D = of("qk_nope_head_dim"), W = of("v_head_dim"), R = of("kv_lora_rank");
    if (config_.at("q_lora_rank").is_null()) {
      add("self_attn.q_proj", {heads * (D + P), C});
    } else {
      add("self_attn.q_a_proj", {of("q_lora_rank"), C});
      add("self_attn.q_a_layernorm", {of("q_lora_rank")});
      add("self_attn.q_b_proj", {heads * (D + P), of("q_lora_rank")});
    }
    add("self_attn.kv_a_proj_with_mqa", {R + P, C});
    add("self_attn.kv_a_layernorm", {R});
    add("self_attn.kv_b_proj", {heads * (D + W), R});
    add("self_attn.o_proj", {C, heads * W});
  }
  void add_mlp(const std::string& at, int64_t width) {
    add(at + "gate_proj", {width, C});
    add(at + "up_proj", {width, C});
    add(at + "down_proj", {C, width});
  }
  void add_experts() {
    const int64_t experts = of("n_routed_experts"), width = of("moe_intermediate_size");
    add("mlp.gate", {experts, C});
    shapes_.emplace_back(layer_ + "mlp.gate.e_score_correction_bias", Extents{experts});
    for (int64_t e = 0; e < experts; ++e) add_mlp(fmt::format("mlp.experts.{}.", e), width);
    add_mlp("mlp.shared_experts.", width * of("n_shared_experts"));
  }
  void add_module() {
    add("embed_tokens", {V, C});
    add("shared_head.head", {V, C});
    add("enorm", {C});
    add("hnorm", {C});
    add("eh_proj", {C, 2 * C});
    add("shared_head.norm", {C});
  }

  const json& config_;
  const int64_t C = of("hidden_size"), V = of("vocab_size");
  std::string layer_;
  TensorShapes shapes_;
};

// A module's copies of the embedding and of the head have the values of these.
std::string source_of(const std::string& name) {
  if (name.ends_with(".embed_tokens.weight")) return "model.embed_tokens.weight";
  if (name.ends_with(".shared_head.head.weight")) return "lm_head.weight";
  return name;
}

using Edit = std::function<void(const std::string& name, std::vector<float>& values)>;

class GoldenLogits : public FolderTest {
 protected:
  // Writes the folder, reads it as a user's import does, and returns the logits [positions, V].
  std::vector<float> imported(const json& config, const Edit& edit = {}) const {
    std::ofstream(root() + "/config.json") << config;
    std::vector<SafetensorsSpec> specs;
    const GoldenTensors tensors(config);
    for (const auto& [name, extents] : tensors.shapes()) {
      specs.push_back({name, DType::F32, Shape(extents)});
    }
    auto writer = SafetensorsWriter::create(root() + "/model.safetensors", specs, {});
    EXPECT_TRUE(writer.ok());
    for (const SafetensorsSpec& spec : specs) {
      std::vector<float> values = golden_values(source_of(spec.name), spec.shape.num_elements());
      if (edit) edit(spec.name, values);
      EXPECT_TRUE(writer->write(std::as_bytes(std::span(values))).ok());
    }
    EXPECT_TRUE(writer->finish().ok());
    const auto model = read_hugging_face(root());
    EXPECT_TRUE(model.ok()) << message_of(model);
    return model.ok() ? logits_of(model->weights, golden_tokens(), 1) : std::vector<float>();
  }
  void expect_golden(const json& config, std::span<const GoldenRow> golden) const {
    const std::vector<float> logits = imported(config);
    ASSERT_EQ(logits.size(), size_t(kPositions * 37));
    ASSERT_EQ(golden.size(), size_t(kPositions));
    for (size_t t = 0; t < golden.size(); ++t) {
      for (size_t i = 0; i < kGoldenColumns.size(); ++i) {
        EXPECT_NEAR(logits[t * 37 + size_t(kGoldenColumns[i])], golden[t][i], 1e-5)
            << config.at("model_type") << ", position " << t << ", token " << kGoldenColumns[i];
      }
    }
  }
  double greatest_change(const json& config, const json& changed, const Edit& edit = {}) const {
    const std::vector<float> before = imported(config), after = imported(changed, edit);
    double greatest = 0.0;
    for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
      greatest = std::max(greatest, std::abs(double(before[i]) - double(after[i])));
    }
    return greatest;
  }
};

TEST_F(GoldenLogits, ImportsOfEachFamilyHaveThoseOfAnotherImplementation) {
  expect_golden(qwen3_config(), kLogitsOfQwen3);
  expect_golden(mistral_config(), kLogitsOfMistral);
  expect_golden(deepseek_v3_config(), kLogitsOfDeepSeekV3);
  expect_golden(without_q_latent(deepseek_v3_config()), kLogitsOfDeepSeekV3WithoutQLatent);
}

// Otherwise the table would not show that an import reads a key.
TEST_F(GoldenLogits, DependOnEveryFeatureThatTheyShow) {
  const json mistral = mistral_config(), deepseek = deepseek_v3_config();
  EXPECT_GT(greatest_change(mistral, with(mistral, {{"sliding_window", 6}})), 1e-2);
  EXPECT_GT(greatest_change(deepseek, with(deepseek, {{"n_group", 1}, {"topk_group", 1}})), 1e-2);
  EXPECT_GT(greatest_change(deepseek, with(deepseek, {{"routed_scaling_factor", 1.0}})), 1e-2);
  EXPECT_GT(greatest_change(deepseek, with(deepseek, {{"rope_scaling", nullptr}})), 1e-2);
  const auto without = [&](const char* suffix, float value) {
    return [=](const std::string& name, std::vector<float>& values) {
      if (name.ends_with(suffix)) std::fill(values.begin(), values.end(), value);
    };
  };
  const Edit no_bias = without("e_score_correction_bias", 0.0f);
  EXPECT_GT(greatest_change(deepseek, deepseek, no_bias), 1e-2);
  const Edit no_gain = without("self_attn.k_norm.weight", 1.0f);
  EXPECT_GT(greatest_change(qwen3_config(), qwen3_config(), no_gain), 1e-2);
  const json without_module = with(deepseek, {{"num_nextn_predict_layers", 0}});
  EXPECT_EQ(greatest_change(deepseek, without_module), 0.0);
}

}  // namespace
}  // namespace trireme
