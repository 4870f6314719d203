#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/save.h"
#include "interchange/foreign_model.h"
#include "scratch_folder.h"
#include "tokenizer/bpe_tokenizer.h"

// Small valid models and checkpoints, from which seeds are made and which targets damage.
namespace trireme {

inline BpeTokenizer small_tokenizer() {
  auto tokenizer = BpeTokenizer::make({{'a', 'b'}, {'c', 'd'}, {256, 257}});
  if (!tokenizer.ok()) std::abort();
  return std::move(*tokenizer);
}

inline InterchangeModel small_model(ModelFamily family) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.d_model = 16;
  config.heads = 2;
  config.vocab_size = 264;
  config.seq_len = 8;
  if (family != ModelFamily::Gpt2) {
    config.kv_heads = 1;
    config.d_ff = 32;
    config.experts = 2;
    config.bias = false;
    config.activation = ActivationChoice::Swiglu;
  }
  const auto resolved = resolve_model(config, 0);
  if (!resolved.ok()) std::abort();
  InterchangeModel model{.config = config, .weights = Weights(*resolved)};
  for (const ParamSpec& param : model.weights.params()) {
    float value = param.init == ParamInit::One ? 1.0f : 0.0f;
    for (float& element : model.weights.at(param.name)) element = value += 0.0078125f;
  }
  model.tokenizer = std::make_unique<BpeTokenizer>(small_tokenizer());
  return model;
}

struct ForeignFiles {
  ForeignFormat format = ForeignFormat::HuggingFace;
  std::string path;                                        // the path for read_foreign_model
  std::vector<std::pair<std::string, std::string>> files;  // (path, content), sorted
};

// Writes models of every family in every format that supports it, into a new folder.
inline std::vector<ForeignFiles> write_small_models(const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::vector<ForeignFiles> models;
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    for (const ForeignFormat format :
         {ForeignFormat::HuggingFace, ForeignFormat::Gguf, ForeignFormat::Llmc}) {
      ForeignFiles model{.format = format, .path = folder + "/" + std::to_string(models.size())};
      const Status written = write_foreign_model(
          small_model(family), model.path, {.format = format, .max_shard_bytes = int64_t{1} << 14});
      if (!written.ok()) continue;
      if (std::filesystem::is_directory(model.path)) {
        for (const auto& entry : std::filesystem::directory_iterator(model.path)) {
          model.files.emplace_back(entry.path().string(), "");
        }
      } else {
        model.files.emplace_back(model.path, "");
      }
      std::sort(model.files.begin(), model.files.end());
      for (auto& [path, content] : model.files) content = read_plainly(path);
      models.push_back(std::move(model));
    }
  }
  if (models.size() < 5) std::abort();
  return models;
}

inline std::vector<float> small_values(int64_t step) {
  std::vector<float> values;
  for (int i = 0; i < 12; ++i) values.push_back(float(i) + 0.25f * float(step));
  return values;
}

// Saves a checkpoint with one tensor in two boxes. Returns its folder.
inline std::string save_small_checkpoint(const std::string& root, int64_t step) {
  const std::vector<float> values = small_values(step);
  const CheckpointInfo info = {.step = step,
                               .next_sample = 8 * step,
                               .tokens_seen = 256 * step,
                               .seed = 0xFEDCBA9876543210u,
                               .data_identity = "0123456789abcdef",
                               .optimizer = "adamw",
                               .optimizer_scalars = {{"num_updates", double(step)}}};
  const std::vector<AttachedFile> attached = {{"config.resolved.toml", "[run]\nseed = 1\n"}};
  const std::vector<TensorPiece> pieces = {
      {"layers.0.attn.wq", Shape{3, 4}, DType::F32, Slice::box({0, 0}, {3, 2}), values.data()},
      {"layers.0.attn.wq", Shape{3, 4}, DType::F32, Slice::box({0, 2}, {3, 2}), values.data() + 6}};
  const auto path = save_checkpoint(root, info, attached, pieces, {.keep = 0});
  if (!path.ok()) std::abort();
  return *path;
}

}  // namespace trireme
