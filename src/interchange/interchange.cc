#include "interchange/interchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "checkpoint/save.h"
#include "interchange/logits.h"
#include "interchange/whole_folder.h"

namespace trireme {
namespace {

// Returns the largest allowed change of a value: half a step of the dtype's grid at that value.
double greatest_error(double value, double block_greatest, Rounding rounding) {
  switch (rounding) {
    case Rounding::None:
      return 0.0;
    case Rounding::F16:
      return std::max(std::abs(value) * 0x1p-11, 0x1p-25);
    case Rounding::BF16:
      return std::max(std::abs(value) * 0x1p-8, 0x1p-134);
    case Rounding::Q8_0:  // half a step of greatest / 127, which is itself rounded to F16
      return std::max(block_greatest * (0.5 / 127 + 0x1p-10), 0x1p-17);
  }
  return 0.0;
}

constexpr int64_t kBlock = 32;  // of Q8_0; other roundings ignore it

Status compare_tensor(const std::string& name, std::span<const float> original,
                      std::span<const float> written, Rounding rounding) {
  for (size_t begin = 0; begin < original.size(); begin += kBlock) {
    const size_t end = std::min(original.size(), begin + kBlock);
    double greatest = 0.0;
    for (size_t i = begin; i < end; ++i)
      greatest = std::max<double>(greatest, std::abs(original[i]));
    for (size_t i = begin; i < end; ++i) {
      const double error = std::abs(double(original[i]) - double(written[i]));
      if (error <= greatest_error(original[i], greatest, rounding)) continue;
      return Error{ErrorKind::Damaged, fmt::format("{}: element {} was {} and reads back as {}",
                                                   name, i, original[i], written[i])};
    }
  }
  return Done{};
}

}  // namespace

LogitsCheck compare_logits(const Weights& a, const Weights& b, int num_threads) {
  const std::vector<int32_t> tokens = probe_tokens(a.model());
  const std::vector<float> logits_a = logits_of(a, tokens, num_threads);
  const std::vector<float> logits_b = logits_of(b, tokens, num_threads);
  TRIREME_CHECK(logits_a.size() == logits_b.size(), "models of different vocabularies");
  LogitsCheck check{.num_logits = static_cast<int64_t>(logits_a.size())};
  for (size_t i = 0; i < logits_a.size(); ++i) {
    const double difference = std::abs(double(logits_a[i]) - double(logits_b[i]));
    check.greatest_difference =
        std::isnan(difference) ? INFINITY : std::max(check.greatest_difference, difference);
    check.greatest_logit = std::max<double>(check.greatest_logit, std::abs(logits_a[i]));
  }
  return check;
}

Result<InterchangeModel> read_checkpoint_model(const Checkpoint& checkpoint,
                                               const ModelConfig& config, int num_threads) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (checkpoint.index().attached.count("tokenizer.json") > 0) {
    TRIREME_TRY(text, checkpoint.read_attached("tokenizer.json"));
    auto parsed = parse_tokenizer(text);
    if (!parsed.ok()) return with_context(parsed.error(), checkpoint.folder() + "/tokenizer.json");
    tokenizer = std::move(*parsed);
  }
  // If the configuration leaves the vocabulary to the data, it is that of the embedding.
  const StoredTensor* embedding = checkpoint.find("embedding.tokens");
  TRIREME_TRY(spec, resolve_model(config, embedding == nullptr ? 0 : embedding->shape[0]));
  InterchangeModel model{
      .config = config, .weights = Weights(spec), .tokenizer = std::move(tokenizer)};
  model.config.vocab_size = spec.vocab_size;
  std::vector<TensorRequest> requests;
  for (const ParamSpec& param : model.weights.params()) {
    requests.push_back({param.name, param.shape, DType::F32, Slice::whole(param.shape),
                        model.weights.at(param.name).data()});
  }
  TRIREME_TRY_DONE(checkpoint.read(requests, {.num_threads = num_threads}));
  return model;
}

Status write_checkpoint_model(const InterchangeModel& model, const CheckpointModelOptions& options,
                              const std::string& folder) {
  std::vector<TensorPiece> pieces;
  const auto add = [&](const std::string& name, const ParamSpec& param, const float* data) {
    pieces.push_back({name, param.shape, DType::F32, Slice::whole(param.shape), data});
  };
  int64_t greatest = 0;
  for (const ParamSpec& param : model.weights.params()) {
    add(param.name, param, model.weights.at(param.name).data());
    greatest = std::max(greatest, param.shape.num_elements());
  }
  CheckpointInfo info{.optimizer = "none"};
  std::vector<float> zeros;
  if (options.is_trainable) {
    info.optimizer = "adamw";
    info.optimizer_scalars = {{"num_updates", 0.0}, {"skipped_steps", 0.0}};
    zeros.resize(static_cast<size_t>(greatest));
    for (const char* moment : {"exp_avg/", "exp_avg_sq/"}) {
      for (const ParamSpec& param : model.weights.params()) {
        if (param.is_trained) add(moment + param.name, param, zeros.data());
      }
    }
  }
  std::vector<AttachedFile> attached = {{"config.resolved.toml", options.config_toml}};
  if (model.tokenizer != nullptr)
    attached.push_back({"tokenizer.json", model.tokenizer->to_json()});
  return write_whole_folder(folder, [&](const std::string& temporary) -> Status {
    TRIREME_TRY(path, save_checkpoint(temporary, info, attached, pieces, {.keep = 0}));
    // The folder itself becomes the checkpoint; it does not hold several.
    std::error_code error;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path, error))
      files.push_back(entry.path());
    for (const std::filesystem::path& file : files) {
      if (!error)
        std::filesystem::rename(file, std::filesystem::path(temporary) / file.filename(), error);
    }
    if (!error) std::filesystem::remove(path, error);
    if (error) return Error{ErrorKind::Damaged, temporary + ": " + error.message()};
    return Done{};
  });
}

Status compare_weights(const Weights& original, const Weights& written, Rounding rounding) {
  for (const ParamSpec& param : original.params()) {
    if (!written.contains(param.name))
      return Error{ErrorKind::Damaged, param.name + " was not written"};
  }
  for (const ParamSpec& param : written.params()) {
    const std::span<const float> values = written.at(param.name);
    if (original.contains(param.name)) {
      // Vectors are never quantised.
      const bool is_vector = param.shape.rank() == 1 && rounding == Rounding::Q8_0;
      TRIREME_TRY_DONE(compare_tensor(param.name, original.at(param.name), values,
                                      is_vector ? Rounding::None : rounding));
      continue;
    }
    const float neutral = param.init == ParamInit::One ? 1.0f : 0.0f;
    if (std::any_of(values.begin(), values.end(), [&](float value) { return value != neutral; })) {
      return Error{
          ErrorKind::Damaged,
          param.name + " does not exist in the original, but its written value is not neutral"};
    }
  }
  return Done{};
}

}  // namespace trireme
