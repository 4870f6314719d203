#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/safetensors_writer.h"
#include "graph/param_table.h"
#include "interchange/foreign_family.h"
#include "interchange/foreign_model.h"
#include "interchange/hugging_face_config.h"
#include "interchange/hugging_face_folder.h"
#include "interchange/hugging_face_tensors.h"
#include "interchange/hugging_face_weights.h"
#include "interchange/interchange.h"
#include "interchange/interchange_fixture.h"
#include "interchange/print_hugging_face_config.h"
#include "schema/run_config_text.h"

namespace trireme {
namespace {

using nlohmann::json;

class HuggingFace : public FolderTest {
 protected:
  std::string folder() const { return root() + "/hf"; }
  static std::vector<std::byte> data_of(const SafetensorsFile& file,
                                        const SafetensorsEntry& entry) {
    std::vector<std::byte> bytes(static_cast<size_t>(entry.end - entry.begin));
    EXPECT_TRUE(file.read(entry, 0, bytes).ok());
    return bytes;
  }

  // Writes the folder again with renamed tensors; a name "" leaves the tensor out.
  template <typename Rename>
  void rename_tensors(Rename&& rename) {
    const auto file = SafetensorsFile::open(folder() + "/model.safetensors");
    ASSERT_TRUE(file.ok());
    std::vector<SafetensorsSpec> specs;
    std::vector<const SafetensorsEntry*> entries;
    for (const SafetensorsEntry& entry : file->header().tensors) {
      const std::string name = rename(entry.name);
      if (name.empty()) continue;
      specs.push_back({name, *entry.dtype, Shape(entry.extents)});
      entries.push_back(&entry);
    }
    const std::string path = root() + "/renamed.safetensors";
    auto writer = SafetensorsWriter::create(path, specs, {});
    ASSERT_TRUE(writer.ok());
    for (const SafetensorsEntry* entry : entries) {
      ASSERT_TRUE(writer->write(data_of(*file, *entry)).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
    std::filesystem::rename(path, folder() + "/model.safetensors");
  }
  void edit_config(const std::function<void(json&)>& edit) {
    json config = parse_json(read_text_file(folder() + "/config.json").value());
    edit(config);
    std::ofstream(folder() + "/config.json") << config;
  }
  Result<InterchangeModel> read() const { return read_hugging_face(folder()); }
  void write(const InterchangeModel& model, const HuggingFaceWriteOptions& options = {}) {
    std::filesystem::remove_all(folder());
    const Status status = write_hugging_face(model, folder(), options);
    ASSERT_TRUE(status.ok()) << message_of(status);
  }
};

TEST_F(HuggingFace, EveryModelComesBackBitForBitWholeAndSharded) {
  for (const char* name : kSmallModels) {
    const InterchangeModel model = random_model(name);
    for (const int64_t max_shard_bytes : {int64_t{1} << 30, int64_t{9000}}) {
      write(model, {.max_shard_bytes = max_shard_bytes});
      EXPECT_EQ(std::filesystem::exists(folder() + "/model.safetensors.index.json"),
                max_shard_bytes == 9000);
      const auto again = read();
      ASSERT_TRUE(again.ok()) << name << ": " << message_of(again);
      const Status same = compare_weights(model.weights, again->weights, Rounding::None);
      EXPECT_TRUE(same.ok()) << name << ": " << message_of(same);
      EXPECT_EQ(compare_logits(model.weights, again->weights, 1).greatest_difference, 0.0) << name;
    }
  }
}

TEST_F(HuggingFace, HalfPrecisionRoundsOnceAndStaysAsItIs) {
  for (const auto& [dtype, rounding] :
       {std::pair(DType::F16, Rounding::F16), std::pair(DType::BF16, Rounding::BF16)}) {
    const InterchangeModel model = random_model("llama_untied");
    write(model, {.dtype = dtype});
    const auto once = read();
    ASSERT_TRUE(once.ok());
    EXPECT_EQ(once->dtype, dtype);
    EXPECT_TRUE(compare_weights(model.weights, once->weights, rounding).ok());
    EXPECT_FALSE(compare_weights(model.weights, once->weights, Rounding::None).ok());
    const std::string bytes = read_text_file(folder() + "/model.safetensors").value();
    write(*once, {.dtype = dtype});
    EXPECT_EQ(read_text_file(folder() + "/model.safetensors").value(), bytes);
  }
}

// Computes what the library's modules compute, element by element: Conv1D is x W with W [in, out],
// and q, k and v are side by side.
TEST_F(HuggingFace, ElementsLieWhereTheLibraryLooksForThem) {
  const InterchangeModel model = random_model("gpt2");
  write(model);
  const auto file = SafetensorsFile::open(folder() + "/model.safetensors");
  ASSERT_TRUE(file.ok());
  const auto element = [&](const char* name, int64_t index) {
    float value = 0;
    std::memcpy(&value, data_of(*file, *file->header().find(name)).data() + 4 * index, 4);
    return value;
  };
  const int64_t C = 24;
  const char* const parts[] = {"layers.1.attn.wq", "layers.1.attn.wk", "layers.1.attn.wv"};
  for (int64_t in = 0; in < C; ++in) {
    for (int64_t out = 0; out < 3 * C; ++out) {
      ASSERT_EQ(element("transformer.h.1.attn.c_attn.weight", in * 3 * C + out),
                model.weights.at(parts[out / C])[out % C * C + in]);
    }
    for (int64_t out = 0; out < 4 * C; ++out) {
      ASSERT_EQ(element("transformer.h.0.mlp.c_fc.weight", in * 4 * C + out),
                model.weights.at("layers.0.mlp.w_up")[out * C + in]);
    }
  }
  EXPECT_EQ(element("transformer.h.1.attn.c_attn.bias", C + 3),
            model.weights.at("layers.1.attn.bk")[3]);
  EXPECT_EQ(element("transformer.wte.weight", 77), model.weights.at("embedding.tokens")[77]);
  EXPECT_EQ(file->header().find("lm_head.weight"), nullptr);
}

TEST_F(HuggingFace, ExpertsLieWhereTheLibraryLooksForThemInBothSpellings) {
  const InterchangeModel model = random_model("mixtral");
  const ModelSpec& spec = model.weights.model();
  write(model);
  const auto file = SafetensorsFile::open(folder() + "/model.safetensors");
  ASSERT_TRUE(file.ok());
  const auto same = [&](const std::string& theirs, const std::string& ours, int64_t at = 0) {
    const SafetensorsEntry* entry = file->header().find("model.layers.1." + theirs);
    ASSERT_NE(entry, nullptr) << theirs;
    const auto param = model.weights.at("layers.1.mlp." + ours);
    EXPECT_EQ(std::memcmp(data_of(*file, *entry).data() + 4 * at, param.data(), 4 * param.size()),
              0)
        << theirs;
  };
  same("block_sparse_moe.gate.weight", "router");
  for (int expert = 0; expert < 3; ++expert) {
    const std::string theirs = fmt::format("block_sparse_moe.experts.{}.", expert);
    const std::string ours = fmt::format("experts.{}.", expert);
    same(theirs + "w1.weight", ours + "w_gate");
    same(theirs + "w2.weight", ours + "w_down");
    same(theirs + "w3.weight", ours + "w_up");
  }
  // Writes the same folder with fused experts.
  const auto tensors = hugging_face_tensors(spec, ForeignFamily::Mixtral, {ExpertSpelling::Fused});
  ASSERT_TRUE(write_hugging_face_weights(tensors, model.weights, folder(), {}).ok());
  const auto fused = read();
  ASSERT_TRUE(fused.ok()) << message_of(fused);
  EXPECT_TRUE(compare_weights(model.weights, fused->weights, Rounding::None).ok());
  EXPECT_EQ(compare_logits(model.weights, fused->weights, 1).greatest_difference, 0.0);
}

// The first layer has a wide MLP, and the others have experts of their own width beside shared
// ones.
TEST_F(HuggingFace, LayersThatDifferLieWhereTheLibrariesLookForThem) {
  for (const char* name : {"deepseek", "ernie"}) {
    const InterchangeModel model = random_model(name);
    write(model);
    const auto file = SafetensorsFile::open(folder() + "/model.safetensors");
    ASSERT_TRUE(file.ok());
    const auto same = [&](const std::string& theirs, const std::string& ours) {
      const SafetensorsEntry* entry = file->header().find("model.layers." + theirs);
      ASSERT_NE(entry, nullptr) << theirs;
      const auto param = model.weights.at("layers." + ours);
      ASSERT_EQ(entry->end - entry->begin, int64_t(4 * param.size())) << theirs;
      EXPECT_EQ(std::memcmp(data_of(*file, *entry).data(), param.data(), 4 * param.size()), 0);
    };
    same("0.mlp.gate_proj.weight", "0.mlp.w_gate");
    same("1.mlp.gate.weight", "1.mlp.router");
    same("1.mlp.experts.2.down_proj.weight", "1.mlp.experts.2.w_down");
    same("1.mlp.shared_experts.up_proj.weight", "1.mlp.shared.w_up");
    if (name[0] == 'e') same("1.mlp.moe_statics.e_score_correction_bias", "1.mlp.router_bias");
    const json config = parse_json(read_text_file(folder() + "/config.json").value());
    EXPECT_EQ(config["intermediate_size"], 56);
    EXPECT_EQ(config["moe_intermediate_size"], 40);
  }
}

// The module is the layer behind the last one, as DeepSeek publishes it: a row of eh_proj has the
// row for the embedding, then that for the hidden state.
TEST_F(HuggingFace, TheModuleOfDeepSeekV3LiesBehindTheLastLayer) {
  const InterchangeModel model = random_model("deepseek_v3_mtp_untied");
  write(model);
  const auto file = SafetensorsFile::open(folder() + "/model.safetensors");
  ASSERT_TRUE(file.ok());
  const auto values = [&](const std::string& theirs) {
    const SafetensorsEntry* entry = file->header().find("model.layers.2." + theirs);
    EXPECT_NE(entry, nullptr) << theirs;
    std::vector<float> elements(size_t(entry->end - entry->begin) / sizeof(float));
    const std::vector<std::byte> bytes = data_of(*file, *entry);
    std::memcpy(elements.data(), bytes.data(), bytes.size());
    return elements;
  };
  const auto same = [&](const std::string& theirs, const std::string& ours) {
    const std::span<const float> param = model.weights.at(ours);
    EXPECT_TRUE(std::ranges::equal(values(theirs), param)) << theirs;
  };
  same("enorm.weight", "mtp.0.embedding_norm.gain");
  same("hnorm.weight", "mtp.0.hidden_norm.gain");
  same("shared_head.norm.weight", "mtp.0.final_norm.gain");
  same("shared_head.head.weight", "head.weight");
  same("embed_tokens.weight", "embedding.tokens");
  same("self_attn.o_proj.weight", "mtp.0.attn.wo");
  same("mlp.experts.3.down_proj.weight", "mtp.0.mlp.experts.3.w_down");
  same("mlp.gate.e_score_correction_bias", "mtp.0.mlp.router_bias");
  const std::vector<float> joined = values("eh_proj.weight");
  const size_t C = 24;
  for (size_t row = 0; row < C; ++row) {
    for (size_t col = 0; col < C; ++col) {
      ASSERT_EQ(joined[row * 2 * C + col], model.weights.at("mtp.0.from_embedding")[row * C + col]);
      ASSERT_EQ(joined[row * 2 * C + C + col],
                model.weights.at("mtp.0.from_hidden")[row * C + col]);
    }
  }
}

// When the library saves a model, it leaves out the module, but config.json keeps the key.
TEST_F(HuggingFace, AModuleThatTheFilesLackIsLeftOut) {
  const InterchangeModel model = random_model("deepseek_v3_mtp");
  write(model);
  rename_tensors([](const std::string& name) {
    return name.starts_with("model.layers.2.") ? std::string() : name;
  });
  const auto again = read();
  ASSERT_TRUE(again.ok()) << message_of(again);
  EXPECT_EQ(again->weights.model().mtp_depth, 0);
  for (const ParamSpec& param : again->weights.params()) {
    EXPECT_TRUE(std::ranges::equal(again->weights.at(param.name), model.weights.at(param.name)));
  }
  EXPECT_EQ(compare_logits(model.weights, again->weights, 1).greatest_difference, 0.0);
}

TEST_F(HuggingFace, ModulesOfOtherModelsAreLeftOutWithANote) {
  ModelConfig config = small_model("llama");
  config.mtp_depth = 2;
  InterchangeModel model{.config = config, .weights = Weights(*resolve_model(config, 0))};
  EXPECT_FALSE(write_hugging_face(model, folder(), {}).ok());
  model = without_unsupported_modules(std::move(model), ForeignFormat::HuggingFace);
  EXPECT_EQ(model.notes.size(), 1u);
  write(model);
  EXPECT_TRUE(read().ok());
  EXPECT_TRUE(
      without_unsupported_modules(random_model("deepseek_v3_mtp"), ForeignFormat::HuggingFace)
          .notes.empty());
}

// All logits of Command R have a factor; ours have it in the gain of the final norm.
TEST_F(HuggingFace, AFactorOfTheLogitsScalesTheFinalNorm) {
  const InterchangeModel model = random_model("command_r");
  write(model);
  edit_config([](json& config) { config["logit_scale"] = 0.0625; });
  const auto scaled = read();
  ASSERT_TRUE(scaled.ok()) << message_of(scaled);
  const auto gain = model.weights.at("final_norm.gain"),
             scaled_gain = scaled->weights.at("final_norm.gain");
  for (size_t i = 0; i < gain.size(); ++i) EXPECT_EQ(scaled_gain[i], 0.0625f * gain[i]);
  edit_config([](json& config) { config["logit_scale"] = 0.0; });
  EXPECT_NE(message_of(read()).find("logit_scale"), std::string::npos);
}

TEST_F(HuggingFace, PrefixesBuffersAndCopiesOfTheHeadDoNotMatter) {
  const InterchangeModel gpt2 = random_model("gpt2");
  const auto without = [](const std::string& name) {
    return name.starts_with("transformer.") ? name.substr(12) : name;
  };
  const auto wrapped = [](const std::string& name) { return "module._orig_mod." + name; };
  write(gpt2);
  rename_tensors(without);
  EXPECT_TRUE(compare_weights(gpt2.weights, read()->weights, Rounding::None).ok());
  write(gpt2);
  rename_tensors(wrapped);
  EXPECT_TRUE(compare_weights(gpt2.weights, read()->weights, Rounding::None).ok());

  // Adds a copy of the embedding as head, and buffers: an untied model whose config claims that it
  // is tied.
  InterchangeModel untied = random_model("gpt2_untied");
  std::copy_n(untied.weights.at("embedding.tokens").begin(), 45 * 24,
              untied.weights.at("head.weight").begin());
  write(untied);
  edit_config([](json& config) { config["tie_word_embeddings"] = true; });
  const auto tied = read();
  ASSERT_TRUE(tied.ok()) << message_of(tied);
  EXPECT_TRUE(tied->weights.model().tied_head);
  untied.weights.at("head.weight")[7] += 1;
  write(untied);
  edit_config([](json& config) { config["tie_word_embeddings"] = true; });
  EXPECT_NE(message_of(read()).find("differs from the embedding"), std::string::npos);
}

TEST_F(HuggingFace, BuffersOfOldVersionsAreLeftOut) {
  for (const char* name : {"gpt2_untied", "llama_untied"}) {
    write(random_model(name));
    const bool is_gpt2 = name[0] == 'g';
    edit_config([](json& config) { config["tie_word_embeddings"] = true; });
    // A tied model does not read this tensor, whatever its name is.
    rename_tensors([&](const std::string& tensor) -> std::string {
      if (tensor != "lm_head.weight") return tensor;
      return is_gpt2 ? "h.1.attn.bias" : "model.layers.0.self_attn.rotary_emb.inv_freq";
    });
    EXPECT_TRUE(read().ok()) << message_of(read());
    rename_tensors([&](const std::string& tensor) -> std::string {
      return tensor.ends_with(".attn.bias") || tensor.ends_with("inv_freq") ? "adapter.weight"
                                                                            : tensor;
    });
    const auto refused = read();
    EXPECT_EQ(refused.error().kind, ErrorKind::Infeasible);
    EXPECT_NE(message_of(refused).find("adapter.weight"), std::string::npos);
  }
}

TEST_F(HuggingFace, ConfigurationsOfVersions4And5SayTheSame) {
  for (const char* name : {"llama", "llama3_untied", "gpt2", "mixtral", "qwen3", "qwen3_moe",
                           "mistral_untied", "deepseek_v3"}) {
    const ModelConfig model = small_model(name);
    const auto text = print_hugging_face_config(*resolve_model(model, 0), {DType::BF16, 44});
    ASSERT_TRUE(text.ok());
    json v4 = parse_json(*text), v5 = v4;
    v4.erase("rope_parameters");
    v4.erase("dtype");
    if (!v4["rope_scaling"].is_null() && name[0] == 'l') {
      v4["rope_scaling"]["type"] = v4["rope_scaling"]["rope_type"];
      v4["rope_scaling"].erase("rope_type");
    }
    for (const char* key : {"rope_theta", "rope_scaling", "torch_dtype"}) v5.erase(key);
    v5["eos_token_id"] = {44, 45};
    for (const json& config : {parse_json(*text), v4, v5}) {
      const auto parsed = parse_hugging_face_config(json_text(config));
      ASSERT_TRUE(parsed.ok()) << message_of(parsed);
      EXPECT_EQ(parsed->dtype, DType::BF16);
      EXPECT_EQ(parsed->end_of_text, 44);
      const auto again =
          print_hugging_face_config(*resolve_model(parsed->model, 0), {DType::BF16, 44});
      EXPECT_EQ(again.value(), *text) << name;
    }
  }
}

// Kimi K2 is a DeepSeek-V3 of other widths.
TEST_F(HuggingFace, KimiK2IsReadAsDeepSeekV3) {
  const std::string text =
      print_hugging_face_config(*resolve_model(small_model("deepseek_v3"), 0), {}).value();
  json config = parse_json(text);
  config["model_type"] = "kimi_k2";
  const auto parsed = parse_hugging_face_config(json_text(config));
  ASSERT_TRUE(parsed.ok()) << message_of(parsed);
  EXPECT_EQ(parsed->family, ForeignFamily::DeepseekV3);
  EXPECT_EQ(print_hugging_face_config(*resolve_model(parsed->model, 0), {}).value(), text);
}

// The keys of the published config.json.
TEST_F(HuggingFace, Glm5IsReadWithItsIndexerAndItsWeightsAreRefused) {
  json config = {{"model_type", "glm_moe_dsa"},
                 {"hidden_size", 6144},
                 {"intermediate_size", 12288},
                 {"moe_intermediate_size", 2048},
                 {"num_hidden_layers", 78},
                 {"num_attention_heads", 64},
                 {"num_key_value_heads", 64},
                 {"vocab_size", 154880},
                 {"max_position_embeddings", 4096},
                 {"rope_parameters", {{"rope_theta", 1000000.0}, {"rope_type", "default"}}},
                 {"first_k_dense_replace", 3},
                 {"index_topk", 2048}};
  const auto parsed = parse_hugging_face_config(json_text(config));
  ASSERT_TRUE(parsed.ok()) << message_of(parsed);
  const ModelSpec model = *resolve_model(parsed->model, 0);
  EXPECT_EQ(num_params(model), 743911208448);
  EXPECT_EQ(model.index_heads, 32);
  EXPECT_EQ(foreign_family(model).error().kind, ErrorKind::Infeasible);
  config.erase("first_k_dense_replace");
  config["mlp_layer_types"] = json::array();
  for (int layer = 0; layer < 78; ++layer) {
    config["mlp_layer_types"].push_back(layer < 3 ? "dense" : "sparse");
  }
  const auto listed = parse_hugging_face_config(json_text(config));
  ASSERT_TRUE(listed.ok()) << message_of(listed);
  EXPECT_EQ(listed->model.dense_layers, 3);
  std::filesystem::create_directories(folder());
  std::ofstream(folder() + "/config.json") << config;
  const auto refused = read();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Infeasible);
  EXPECT_NE(message_of(refused).find("index_topk = 2048"), std::string::npos);
  for (const auto& [key, value] : {std::pair<const char*, json>{"index_topk_freq", 4},
                                   {"mlp_layer_types", {"sparse", "dense"}}}) {
    json other = config;
    other[key] = value;
    EXPECT_NE(message_of(parse_hugging_face_config(json_text(other))).find(key), std::string::npos);
  }
}

TEST_F(HuggingFace, WhatCannotBeRepresentedIsRefusedByName) {
  const std::tuple<const char*, const char*, json> refused[] = {
      {"gpt2", "scale_attn_by_inverse_layer_idx", true},
      {"gpt2", "activation_function", "quick_gelu"},
      {"gpt2", "add_cross_attention", true},
      {"gpt2", "model_type", "gpt_neox"},
      {"llama", "attention_bias", true},
      {"llama", "hidden_act", "gelu"},
      {"llama", "rope_scaling", {{"type", "longrope"}, {"factor", 2.0}}},
      {"llama", "quantization_config", {{"bits", 4}}},
      {"qwen3_moe", "norm_topk_prob", false},
      {"qwen3_moe", "mlp_only_layers", {0}},
      {"deepseek_v3", "scoring_func", "softmax"},
      {"deepseek_v3", "rope_interleave", false},
      {"deepseek_v3", "norm_topk_prob", false},
      {"llama", "model_type", "nemotron"},
      {"arcee_untied", "hidden_act", "silu"},
      {"command_r", "use_qk_norm", true},
      {"deepseek", "norm_topk_prob", false},
      {"deepseek", "num_experts_per_tok", 1},
      {"deepseek", "moe_layer_freq", 2},
      {"deepseek", "scoring_func", "sigmoid"},
      {"ernie", "moe_layer_interval", 2},
      {"ernie", "moe_layer_end_index", 0},
      {"ernie", "use_bias", true},
  };
  for (const auto& [name, key, value] : refused) {
    json config =
        parse_json(print_hugging_face_config(*resolve_model(small_model(name), 0), {}).value());
    config[key] = value;
    const auto parsed = parse_hugging_face_config(json_text(config));
    ASSERT_FALSE(parsed.ok()) << key;
    EXPECT_EQ(parsed.error().kind, ErrorKind::Infeasible) << message_of(parsed);
    EXPECT_NE(message_of(parsed).find(key), std::string::npos) << message_of(parsed);
  }
  for (const char* text :
       {"", "[]", "{}", R"({"model_type":"llama"})", R"({"model_type":"gpt2","n_embd":-1})",
        R"({"model_type":"gpt2","n_head":7})", R"({"model_type":"gpt2","n_layer":1e9})"}) {
    const auto parsed = parse_hugging_face_config(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::Damaged) << text;
  }
  ModelConfig micro = small_model("gpt2");
  micro.embedding_norm = true;
  EXPECT_EQ(foreign_family(*resolve_model(micro, 0)).error().kind, ErrorKind::Infeasible);
  using Change = void (*)(ModelConfig&);
  const Change unheld[] = {[](ModelConfig& model) { model.router = RouterType::Sigmoid; },
                           [](ModelConfig& model) { model.capacity_factor = 1.0; },
                           [](ModelConfig& model) { model.parallel_block = true; },
                           [](ModelConfig& model) { model.norm = NormChoice::LayerNorm; }};
  for (const char* name : {"mixtral", "deepseek", "ernie"}) {
    for (const Change change : unheld) {
      ModelConfig model = small_model(name);
      change(model);
      EXPECT_EQ(foreign_family(*resolve_model(model, 0)).error().kind, ErrorKind::Infeasible);
    }
  }
  ModelConfig model = small_model("deepseek");
  model.top_k = 1;  // its weight is not divided by itself there
  EXPECT_EQ(foreign_family(*resolve_model(model, 0)).error().kind, ErrorKind::Infeasible);
  micro = small_model("gpt2");
  micro.positions = PositionsChoice::Rope;
  EXPECT_FALSE(foreign_family(*resolve_model(micro, 0)).ok());
}

// The tables of names list every parameter of a model, or name the one that they lack.
TEST_F(HuggingFace, AParameterWithoutATensorIsNamed) {
  ModelConfig config = small_model("gpt2");
  config.layer_scale = 0.1;
  const ModelSpec model = *resolve_model(config, 0);
  EXPECT_EQ(foreign_family(model).error().kind, ErrorKind::Infeasible);
  try {
    hugging_face_tensors(model, ForeignFamily::Gpt2);
    ADD_FAILURE() << "gains of layer scale are left out";
  } catch (const ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("scale.gain"), std::string::npos) << error.what();
  }
}

TEST_F(HuggingFace, DamageIsSaidWithTheTensor) {
  InterchangeModel model = random_model("gpt2");
  write(model);
  rename_tensors([](const std::string& name) {
    return name == "transformer.h.1.ln_2.bias" ? std::string() : name;
  });
  EXPECT_NE(message_of(read()).find("no tensor transformer.h.1.ln_2.bias"), std::string::npos);
  write(model);
  edit_config([](json& config) { config["n_positions"] = 11; });
  EXPECT_NE(
      message_of(read()).find("wpe.weight is [10, 24], the model of config.json has [11, 24]"),
      std::string::npos);
  model.weights.at("layers.0.mlp.w_up")[5] = 1e30f;
  const Status overflow = write_hugging_face(model, root() + "/half", {.dtype = DType::F16});
  EXPECT_EQ(overflow.error().kind, ErrorKind::Infeasible);
  EXPECT_NE(message_of(overflow).find("h.0.mlp.c_fc.weight"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(root() + "/half"));
  EXPECT_EQ(write_hugging_face(model, folder(), {}).error().kind, ErrorKind::Usage);
  std::filesystem::remove(folder() + "/model.safetensors");
  EXPECT_NE(message_of(read()).find("neither model.safetensors nor"), std::string::npos);
}

TEST_F(HuggingFace, ThroughACheckpointNothingChanges) {
  for (const char* name : kSmallModels) {
    const InterchangeModel model = random_model(name);
    RunConfig config;
    config.model = model.config;
    const std::string path = root() + "/checkpoint-" + name;
    ASSERT_TRUE(write_checkpoint_model(model, {to_toml(config)}, path).ok());
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << message_of(checkpoint);
    EXPECT_TRUE(checkpoint->verify(1).empty());
    const auto again = read_checkpoint_model(*checkpoint, model.config, 1);
    ASSERT_TRUE(again.ok()) << message_of(again);
    EXPECT_TRUE(compare_weights(model.weights, again->weights, Rounding::None).ok());
    EXPECT_EQ(compare_logits(model.weights, again->weights, 1).greatest_difference, 0.0);
  }
}

}  // namespace
}  // namespace trireme
