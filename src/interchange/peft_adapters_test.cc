#include "interchange/peft_adapters.h"

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "checkpoint/checkpoint_fixture.h"
#include "interchange/foreign_model.h"
#include "interchange/interchange.h"
#include "interchange/interchange_fixture.h"
#include "interchange/merge_adapters.h"

namespace trireme {
namespace {

using nlohmann::json;

// Adapters of random numbers beside a random model.
InterchangeModel adapted_model(const std::string& name, const std::string& targets = "all") {
  InterchangeModel base = random_model(name);
  InterchangeModel model{.config = base.config, .weights = Weights(base.weights.model())};
  model.config.lora_rank = 3;
  model.config.lora_alpha = 4.5;
  model.config.lora_targets = targets;
  if (name.starts_with("deepseek_v3")) {  // its experts have none
    const bool has_q_latent = base.config.q_lora_rank > 0;
    model.config.lora_targets = has_q_latent ? "q_a,q_b,kv_a,kv_b,o" : "q,kv_a,kv_b,o";
  }
  model.weights = Weights(*resolve_model(model.config, 0));
  uint64_t state = 88172645463325252u;
  for (const ParamSpec& param : model.weights.params()) {
    const std::span<float> values = model.weights.at(param.name);
    if (!param.is_adapter) {
      std::ranges::copy(base.weights.at(param.name), values.begin());
      continue;
    }
    for (float& value : values) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      value = 0.3f * (static_cast<float>(state >> 40) * 0x1p-23f - 1.0f);
    }
  }
  return model;
}

InterchangeModel base_of_adapted(const InterchangeModel& model) {
  return {.config = without_adapters(model.config), .weights = without_adapters(model.weights)};
}

const char* const kAdaptedModels[] = {
    "gpt2",         "gpt2_erf_untied", "llama_untied", "llama_head_dim",
    "arcee_untied", "command_r",       "deepseek_v3",  "deepseek_v3_without_q_latent"};

class PeftAdapters : public FolderTest {
 protected:
  std::string folder() const { return root() + "/adapters"; }
  void write(const InterchangeModel& model, DType dtype = DType::F32) {
    std::filesystem::remove_all(folder());
    const Status status = write_peft_adapters(model, folder(), dtype);
    ASSERT_TRUE(status.ok()) << message_of(status);
  }
  void edit_config(const std::function<void(json&)>& edit) {
    json config = parse_json(read_text_file(folder() + "/adapter_config.json").value());
    edit(config);
    std::ofstream(folder() + "/adapter_config.json") << config;
  }
  std::string refusal(const InterchangeModel& model) {
    const auto read = read_peft_adapters(base_of_adapted(model), folder());
    return read.ok() ? std::string() : message_of(read);
  }
  void expect_round_trip(const InterchangeModel& model) {
    write(model);
    const auto again = read_peft_adapters(base_of_adapted(model), folder());
    ASSERT_TRUE(again.ok()) << message_of(again);
    EXPECT_EQ(again->weights.model().lora_scale, model.weights.model().lora_scale);
    EXPECT_EQ(again->weights.params().size(), model.weights.params().size());
    const Status same = compare_weights(model.weights, again->weights, Rounding::None);
    EXPECT_TRUE(same.ok()) << message_of(same);
  }
};

// The decoder adds what the adapters compute; the merged model has it in its matrices.
TEST(MergeAdapters, TheMergedModelHasTheLogitsOfTheAdaptedOne) {
  for (const char* name : kAdaptedModels) {
    const InterchangeModel model = adapted_model(name);
    const Weights merged = merge_adapters(model.weights), base = without_adapters(model.weights);
    EXPECT_FALSE(merged.model().has_adapters());
    const LogitsCheck check = compare_logits(model.weights, merged, 1);
    EXPECT_LE(check.greatest_difference, 2e-5 * check.greatest_logit) << name;
    EXPECT_GE(compare_logits(model.weights, base, 1).greatest_difference,
              1e-2 * check.greatest_logit)
        << name;
  }
}

// y = W x + scale B A x, element by element.
TEST(MergeAdapters, EveryElementIsThatOfTheFormula) {
  const InterchangeModel model = adapted_model("llama_untied", "k,down");
  const Weights merged = merge_adapters(model.weights);
  const std::string name = "layers.1.mlp.w_down";
  const std::span<const float> w = model.weights.at(name), a = model.weights.at(name + ".lora_a"),
                               b = model.weights.at(name + ".lora_b");
  const int64_t rows = 24, cols = 40, r = 3;
  ASSERT_EQ(int64_t(w.size()), rows * cols);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      double sum = 0.0;
      for (int64_t k = 0; k < r; ++k) sum += double(b[row * r + k]) * double(a[k * cols + col]);
      EXPECT_EQ(merged.at(name)[row * cols + col], float(double(w[row * cols + col]) + 1.5 * sum));
    }
  }
  const std::string other = "layers.1.mlp.w_up";
  EXPECT_TRUE(std::ranges::equal(merged.at(other), model.weights.at(other)));
}

TEST_F(PeftAdapters, EveryModelComesBackBitForBit) {
  for (const char* name : kAdaptedModels) {
    SCOPED_TRACE(name);
    expect_round_trip(adapted_model(name));
  }
  expect_round_trip(adapted_model("llama", "q,v"));
  expect_round_trip(adapted_model("gpt2", "o,up"));
  expect_round_trip(adapted_model("mixtral", "q,k,v,o"));
}

// A matrix in a file.
struct FileMatrix {
  std::vector<float> elements;
  int64_t rows = 0, columns = 0;
};
FileMatrix matrix_of(SafetensorsFile& file, const std::string& name) {
  const SafetensorsEntry& entry = *file.header().find(name);
  FileMatrix matrix{std::vector<float>(size_t(entry.end - entry.begin) / sizeof(float)),
                    entry.extents[0], entry.extents[1]};
  const Status read = file.read(entry, 0, std::as_writable_bytes(std::span(matrix.elements)));
  EXPECT_TRUE(read.ok()) << message_of(read);
  return matrix;
}

// Expects merged = W + scale B A, element by element.
void expect_sum(const FileMatrix& merged, const FileMatrix& w, const FileMatrix& b,
                const FileMatrix& a, double scale, bool is_transposed) {
  ASSERT_EQ(w.elements.size(), size_t(b.rows * a.columns));
  for (int64_t row = 0; row < b.rows; ++row) {
    for (int64_t col = 0; col < a.columns; ++col) {
      double sum = 0.0;
      for (int64_t k = 0; k < a.rows; ++k) {
        sum += double(b.elements[size_t(row * a.rows + k)]) *
               double(a.elements[size_t(k * a.columns + col)]);
      }
      const size_t i = size_t(is_transposed ? col * b.rows + row : row * a.columns + col);
      ASSERT_NEAR(merged.elements[i], w.elements[i] + scale * sum, 1e-6) << row << " " << col;
    }
  }
}

// The merged model's file has W + alpha / r B A, in the file's order of rows: what PEFT computes of
// the base model's file and the adapters' file.
TEST_F(PeftAdapters, TheFilesAddUpToTheMergedModelsFile) {
  for (const char* name : kAdaptedModels) {
    InterchangeModel model = adapted_model(name);
    write(model);
    const auto file_of = [&](const std::string& path, Weights weights) {
      const InterchangeModel whole{.config = without_adapters(model.config),
                                   .weights = std::move(weights)};
      std::filesystem::remove_all(path);
      const Status status = write_foreign_model(whole, path, {});
      EXPECT_TRUE(status.ok()) << message_of(status);
      return SafetensorsFile::open(path + "/model.safetensors").value();
    };
    SafetensorsFile base = file_of(root() + "/base", without_adapters(model.weights));
    SafetensorsFile merged = file_of(root() + "/merged", merge_adapters(model.weights));
    auto adapters = SafetensorsFile::open(folder() + "/adapter_model.safetensors").value();
    const json config = parse_json(read_text_file(folder() + "/adapter_config.json").value());
    int count = 0;
    for (const SafetensorsEntry& entry : adapters.header().tensors) {
      constexpr std::string_view kBegin = "base_model.model.", kEnd = ".lora_A.weight";
      if (!entry.name.ends_with(kEnd)) continue;
      std::string module = entry.name.substr(kBegin.size());
      module.resize(module.size() - kEnd.size());
      SCOPED_TRACE(std::string(name) + " " + module);
      double alpha = config["lora_alpha"];
      for (const auto& [pattern, own] : config["alpha_pattern"].items()) {
        if (module.ends_with("." + pattern)) alpha = own;
      }
      const FileMatrix a = matrix_of(adapters, entry.name);
      expect_sum(matrix_of(merged, module + ".weight"), matrix_of(base, module + ".weight"),
                 matrix_of(adapters, std::string(kBegin) + module + ".lora_B.weight"), a,
                 alpha / double(a.rows), config["fan_in_fan_out"]);
      ++count;
    }
    EXPECT_GE(count, 2 * 4) << name;
  }
}

TEST_F(PeftAdapters, LatentAttentionHasTheNamesOfTheLibrary) {
  write(adapted_model("deepseek_v3"));
  const json config = parse_json(read_text_file(folder() + "/adapter_config.json").value());
  EXPECT_EQ(config["target_modules"],
            (json{"kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "q_a_proj", "q_b_proj"}));
  EXPECT_EQ(config["rank_pattern"], (json{{"kv_a_proj_with_mqa", 6}, {"kv_b_proj", 6}}));
  const auto file = SafetensorsFile::open(folder() + "/adapter_model.safetensors");
  ASSERT_TRUE(file.ok());
  const auto extents = [&](const std::string& name) {
    return file->header().find("base_model.model.model.layers.1.self_attn." + name)->extents;
  };
  using Extents = std::vector<int64_t>;
  EXPECT_EQ(extents("kv_a_proj_with_mqa.lora_A.weight"), (Extents{6, 24}));
  EXPECT_EQ(extents("kv_a_proj_with_mqa.lora_B.weight"), (Extents{14 + 6, 6}));
  EXPECT_EQ(extents("kv_b_proj.lora_A.weight"), (Extents{6, 14}));
  EXPECT_EQ(extents("kv_b_proj.lora_B.weight"), (Extents{4 * (8 + 10), 6}));
  EXPECT_EQ(extents("q_a_proj.lora_A.weight"), (Extents{3, 24}));
}

TEST_F(PeftAdapters, NamesAndShapesAreThoseOfTheLibrary) {
  write(adapted_model("llama_untied", "q,down"));
  const auto file = SafetensorsFile::open(folder() + "/adapter_model.safetensors");
  ASSERT_TRUE(file.ok());
  const auto extents = [&](const std::string& name) {
    const SafetensorsEntry* entry = file->header().find("base_model.model.model.layers.1." + name);
    return entry == nullptr ? std::vector<int64_t>() : entry->extents;
  };
  using Extents = std::vector<int64_t>;
  EXPECT_EQ(extents("self_attn.q_proj.lora_A.weight"), (Extents{3, 24}));
  EXPECT_EQ(extents("self_attn.q_proj.lora_B.weight"), (Extents{24, 3}));
  EXPECT_EQ(extents("mlp.down_proj.lora_A.weight"), (Extents{3, 40}));
  EXPECT_EQ(extents("mlp.down_proj.lora_B.weight"), (Extents{24, 3}));
  EXPECT_EQ(file->header().tensors.size(), 2u * 2 * 2);
  const json config = parse_json(read_text_file(folder() + "/adapter_config.json").value());
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["r"], 3);
  EXPECT_EQ(config["lora_alpha"], 4.5);
  EXPECT_EQ(config["target_modules"], (json{"down_proj", "q_proj"}));
  EXPECT_EQ(config["fan_in_fan_out"], false);
}

// The library multiplies by alpha / r of the module, so q, k and v of GPT-2 together have three
// times both.
TEST_F(PeftAdapters, TheModuleOfThreeMatricesAddsWhatTheirAdaptersAdd) {
  const InterchangeModel model = adapted_model("gpt2");
  write(model);
  const json config = parse_json(read_text_file(folder() + "/adapter_config.json").value());
  EXPECT_EQ(config["rank_pattern"]["attn.c_attn"], 9);
  EXPECT_EQ(config["alpha_pattern"]["attn.c_attn"], 13.5);
  EXPECT_EQ(config["fan_in_fan_out"], true);
}

// Elsewhere, one adapter is trained for both matrices of a module of latent attention.
TEST_F(PeftAdapters, AnAOfTwoMatricesStaysShared) {
  const InterchangeModel model = adapted_model("deepseek_v3");
  for (const std::string layer : {"layers.0.attn.", "layers.1.attn."}) {
    for (const auto& [from, to] :
         {std::pair("wkv_down", "shared.wk"), std::pair("wk_up", "wv_up")}) {
      std::ranges::copy(model.weights.at(layer + from + ".lora_a"),
                        model.weights.at(layer + to + ".lora_a").begin());
    }
  }
  expect_round_trip(model);
  const json config = parse_json(read_text_file(folder() + "/adapter_config.json").value());
  EXPECT_TRUE(config["rank_pattern"].empty());
}

// An adapter of c_attn that was trained elsewhere has one A for q, k and v.
TEST_F(PeftAdapters, ASharedAStaysShared) {
  const InterchangeModel model = adapted_model("gpt2");
  for (const char* layer : {"layers.0.attn.", "layers.1.attn."}) {
    for (const char* part : {"wk.lora_a", "wv.lora_a"}) {
      std::ranges::copy(model.weights.at(layer + std::string("wq.lora_a")),
                        model.weights.at(std::string(layer) + part).begin());
    }
  }
  expect_round_trip(model);
  const json config = parse_json(read_text_file(folder() + "/adapter_config.json").value());
  EXPECT_TRUE(config["rank_pattern"].empty());
}

TEST_F(PeftAdapters, HalfPrecisionRoundsOnce) {
  const InterchangeModel model = adapted_model("llama_untied");
  write(model, DType::BF16);
  const auto again = read_peft_adapters(base_of_adapted(model), folder());
  ASSERT_TRUE(again.ok()) << message_of(again);
  EXPECT_TRUE(compare_weights(model.weights, again->weights, Rounding::BF16).ok());
  EXPECT_FALSE(compare_weights(model.weights, again->weights, Rounding::None).ok());
}

TEST_F(PeftAdapters, WhatComputesSomethingElseIsRefused) {
  const InterchangeModel model = adapted_model("llama_untied");
  const auto says = [&](const std::function<void(json&)>& edit, const char* words) {
    write(model);
    edit_config(edit);
    EXPECT_NE(refusal(model).find(words), std::string::npos) << refusal(model);
  };
  says([](json& c) { c["peft_type"] = "LOHA"; }, "peft_type = \"LOHA\"");
  says([](json& c) { c["use_dora"] = true; }, "DoRA");
  says([](json& c) { c["use_rslora"] = true; }, "root of r");
  says([](json& c) { c["layer_replication"] = {{0, 2}}; }, "layer_replication");
  says([](json& c) { c["init_lora_weights"] = "pissa_niter_4"; }, "pissa_niter_4");
  says([](json& c) { c["bias"] = "all"; }, "trained biases");
  says([](json& c) { c["modules_to_save"] = {"lm_head"}; }, "modules_to_save");
  says([](json& c) { c["rank_pattern"] = {{"q_proj", 6}}; }, "rank_pattern");
  says([](json& c) { c["r"] = 4; }, "with r = 4 it should be");
  says([](json& c) { c["r"] = 0; }, "0 is no rank");
  says([](json& c) { c.erase("r"); }, "no key \"r\"");
  says([](json& c) { c["lora_alpha"] = -1; }, "is not positive");
}

TEST_F(PeftAdapters, AFileThatDoesNotFitTheModelIsRefused) {
  const InterchangeModel model = adapted_model("llama_untied"), other = adapted_model("gpt2");
  write(model);
  EXPECT_NE(refusal(other).find("no adapter belongs to a matrix"), std::string::npos)
      << refusal(other);
  const auto twice = read_peft_adapters(adapted_model("llama_untied"), folder());
  EXPECT_NE(message_of(twice).find("has adapters already"), std::string::npos);
  const Status none = write_peft_adapters(random_model("llama"), root() + "/none", DType::F32);
  EXPECT_NE(message_of(none).find("has no adapters"), std::string::npos);
  const Status some =
      write_peft_adapters(adapted_model("gpt2", "q,v"), root() + "/some", DType::F32);
  EXPECT_NE(message_of(some).find("holds q, k and v together"), std::string::npos);
  std::ofstream(folder() + "/adapter_model.safetensors") << "no such file";
  EXPECT_FALSE(refusal(model).empty());
}

// Formats without adapters hold the merged model.
TEST_F(PeftAdapters, TheMergedModelIsWrittenInEveryFormat) {
  InterchangeModel model = adapted_model("gpt2");
  const Weights adapted = std::move(model.weights);
  model.weights = merge_adapters(adapted);
  model.config = without_adapters(model.config);
  for (const ForeignFormat format :
       {ForeignFormat::HuggingFace, ForeignFormat::Gguf, ForeignFormat::Llmc}) {
    const std::string path = root() + "/merged" + std::to_string(int(format));
    const Status status = write_foreign_model(model, path, {.format = format});
    ASSERT_TRUE(status.ok()) << message_of(status);
    const auto read = read_foreign_model(path);
    ASSERT_TRUE(read.ok()) << message_of(read);
    const LogitsCheck check = compare_logits(adapted, read->weights, 1);
    EXPECT_LE(check.greatest_difference, 2e-5 * check.greatest_logit);
  }
}

}  // namespace
}  // namespace trireme
