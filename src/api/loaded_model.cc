#include "api/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/element.h"
#include "config/config_load.h"
#include "interchange/foreign_model.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/quantized_matmul.h"
#include "models/quantized_params.h"
#include "train/run_state.h"

namespace trireme {
namespace {

const KernelTable& best_kernels() {
  const std::vector<Isa> isas = supported_isas();
  return isas.empty() ? reference_kernels() : cpu_kernels(isas.back());
}

}  // namespace

int useful_threads(const std::vector<ParamSpec>& params, DType compute, int num_threads) {
  const bool has_several_tiles =
      std::any_of(params.begin(), params.end(), [&](const ParamSpec& param) {
        return param.shape.rank() >= 2 &&
               param.shape.num_elements() * size_of(compute) > kRowTileBytes;
      });
  return has_several_tiles ? num_threads : 1;
}

LoadedModel::LoadedModel(std::string folder, const ModelSpec& model, DType compute, int num_threads)
    : folder_(std::move(folder)),
      model_(model),
      params_(param_table(model, whole_model(model))),
      stream_(useful_threads(params_, compute, num_threads)),
      ctx_{stream_, best_kernels(), rank_.group(), rank_.group(), rank_.group(), rank_.group()},
      compute_(compute) {
  for (const ParamSpec& param : params_) {
    table_.add(param.name, param.shape, compute, param.adjoins_previous);
  }
  memory_ = Buffer::allocate(table_.bytes());
}

int64_t LoadedModel::num_in_bytes() const { return trireme::num_in_bytes(table_); }

void LoadedModel::make_sequences(int64_t count) {
  TRIREME_CHECK(count >= 1, "there is a text");
  const int64_t most_bytes = std::max(kCacheBytes, table_.bytes());
  const int64_t most = is_quantized_ ? QuantizedMatmulArgs::kFewRows : kMostSequences;
  const int64_t at_once =
      std::max<int64_t>(1, std::min({most, model_.seq_len, most_bytes / decoder_->cache_bytes()}));
  const int64_t turns = (count + at_once - 1) / at_once;
  const int64_t num_sequences = (count + turns - 1) / turns;
  if (num_sequences == decoder_->num_sequences()) {
    for (int64_t s = 0; s < num_sequences; ++s) decoder_->reset(s);
    return;
  }
  decoder_.reset();  // its memory is free before the next one takes more
  decoder_ = std::make_unique<Decoder>(model_, params(), compute_, num_sequences);
}

Status LoadedModel::make_decoder(bool is_quantized) {
  is_quantized_ = is_quantized;
  if (is_quantized) {
    TensorTable table = quantized_table(model_, compute_);
    Buffer memory = Buffer::allocate(table.bytes());
    const Status fits = quantize_params(params(), table, Frame(table, memory.data()), stream_);
    if (!fits.ok()) return with_context(fits.error(), folder_);
    table_ = std::move(table);
    memory_ = std::move(memory);
  }
  decoder_ = std::make_unique<Decoder>(model_, params(), compute_);
  return Done{};
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(
    const Checkpoint& checkpoint, int num_threads, const std::vector<std::string>& model_folders,
    const ModelPrecision& precision) {
  TRIREME_TRY(config_text, checkpoint.read_attached("config.resolved.toml"));
  auto config = load_config_text(config_text, checkpoint.folder(), model_folders);
  if (!config.ok()) return damaged(config.error().message);
  std::unique_ptr<Tokenizer> tokenizer;
  const Result<std::string> text = checkpoint.read_attached("tokenizer.json");
  if (text.ok()) {
    TRIREME_TRY(parsed, parse_tokenizer(*text));
    tokenizer = std::move(parsed);
  } else if (text.error().kind != ErrorKind::Usage) {  // the file exists but is damaged
    return text.error();
  }
  const int64_t vocab_size = tokenizer == nullptr ? 0 : tokenizer->vocab_size();
  TRIREME_TRY(model, resolve_model(config->config.model, vocab_size));
  TRIREME_TRY_DONE(check_runnable(model));
  const DType dtype = precision.compute.value_or(compute_dtype(config->config.precision.compute));
  if (model.reads_images()) {
    return usage(
        fmt::format("{} is a net of images ({}), which generates no text: `trireme eval {} "
                    "IMAGES` says how many images it classifies right",
                    checkpoint.folder(), name_of(model.family), checkpoint.folder()));
  }
  std::unique_ptr<LoadedModel> loaded(
      new LoadedModel(checkpoint.folder(), model, dtype, num_threads));
  loaded->tokenizer_ = std::move(tokenizer);
  loaded->why_no_tokenizer_ =
      "has no tokenizer.json: the run was trained without data.tokenizer, so its tokens have no "
      "text";
  TRIREME_TRY_DONE(load_params(checkpoint, loaded->params_, loaded->params(), num_threads));
  TRIREME_TRY_DONE(loaded->make_decoder(precision.is_quantized));
  return loaded;
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::load_foreign(const std::string& path,
                                                               const ForeignLimits& limits,
                                                               const ModelPrecision& precision) {
  TRIREME_TRY(foreign, read_foreign_model(path));
  const DType dtype =
      precision.compute.value_or(foreign.dtype == DType::BF16 ? DType::BF16 : DType::F32);
  ModelSpec model = foreign.weights.model();
  if (model.reads_images()) {
    return usage(fmt::format(
        "{} is a net of images ({}), which generates no text: `trireme checkpoint import` makes a "
        "checkpoint of it, for `trireme eval`",
        path, name_of(model.family)));
  }
  if (model.rope && limits.most_tokens > 0) {
    model.seq_len = std::min(model.seq_len, limits.most_tokens);
  }
  std::unique_ptr<LoadedModel> loaded(new LoadedModel(path, model, dtype, limits.num_threads));
  loaded->tokenizer_ = std::move(foreign.tokenizer);
  // Files of llm.c hold no tokenizer. Readers of other formats note why they have found none.
  const std::string why = foreign.notes.empty() ? "files of this format hold none"
                                                : fmt::format("{}", fmt::join(foreign.notes, "; "));
  loaded->why_no_tokenizer_ = fmt::format("has no tokenizer that can be used: {}", why);
  const Frame frame = loaded->params();
  for (const ParamSpec& param : loaded->params_) {
    const std::span<const float> values = foreign.weights.at(param.name);
    void* const data = frame.at(param.name).data;
    for (size_t i = 0; i < values.size(); ++i) {
      write_element(data, dtype, int64_t(i), double(values[i]));
    }
  }
  TRIREME_TRY_DONE(loaded->make_decoder(precision.is_quantized));
  return loaded;
}

Result<const Tokenizer*> LoadedModel::tokenizer() const {
  if (tokenizer_ != nullptr) return tokenizer_.get();
  return Error{ErrorKind::Usage, folder_ + " " + why_no_tokenizer_};
}

}  // namespace trireme
