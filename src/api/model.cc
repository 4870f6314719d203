#include "trireme/model.h"

#include "api/content.h"
#include "checkpoint/find_checkpoint.h"
#include "device/host.h"
#include "train/generate.h"
#include "trireme/generate.h"

namespace trireme::api {
namespace {

void check_tokens(std::span<const int32_t> tokens, const ModelSpec& model) {
  if (tokens.empty() || int64_t(tokens.size()) > model.seq_len) {
    fail({ErrorKind::Usage, "logits of " + std::to_string(tokens.size()) +
                                " tokens: the model takes 1 to " + std::to_string(model.seq_len)});
  }
  for (const int32_t token : tokens) {
    if (token >= 0 && token < model.vocab_size) continue;
    fail({ErrorKind::Usage, "token " + std::to_string(token) + " is outside the vocabulary of " +
                                std::to_string(model.vocab_size)});
  }
}

}  // namespace

Model::Model(std::unique_ptr<Content> content) : content_(std::move(content)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::load(const std::string& path, int num_threads) {
  return guarded([&] {
    const Checkpoint checkpoint = value_or_fail(find_checkpoint(path));
    const int threads = num_threads > 0 ? num_threads : num_available_cores();
    return Model(std::make_unique<Content>(
        Content{value_or_fail(LoadedModel::load(checkpoint, threads, {}))}));
  });
}

int64_t Model::num_params() const { return trireme::num_params(content_->loaded->model()); }
int64_t Model::vocab_size() const { return content_->loaded->model().vocab_size; }
int64_t Model::seq_len() const { return content_->loaded->model().seq_len; }

std::vector<int32_t> Model::encode(std::string_view text) const {
  return guarded(
      [&] { return value_or_fail(value_or_fail(content_->loaded->tokenizer())->encode(text)); });
}

std::string Model::decode(std::span<const int32_t> tokens) const {
  return guarded([&] {
    const Tokenizer& tokenizer = *value_or_fail(content_->loaded->tokenizer());
    for (const int32_t token : tokens) {
      if (token >= 0 && token < tokenizer.vocab_size()) continue;
      fail({ErrorKind::Usage, "token " + std::to_string(token) + " is outside the vocabulary"});
    }
    return tokenizer.decode(tokens);
  });
}

std::vector<float> Model::logits(std::span<const int32_t> tokens) {
  return guarded([&] {
    LoadedModel& loaded = *content_->loaded;
    check_tokens(tokens, loaded.model());
    loaded.decoder().reset();
    const std::span<const float> logits_V = loaded.decoder().append(loaded.ctx(), tokens);
    return std::vector<float>(logits_V.begin(), logits_V.end());
  });
}

std::string generate(Model& model, const GenerateRequest& request) {
  return guarded([&] {
    LoadedModel& loaded = *model.content().loaded;
    const Tokenizer& tokenizer = *value_or_fail(loaded.tokenizer());
    const SamplingOptions options{request.temperature, request.top_k, request.top_p, request.seed};
    value_or_fail(check_sampling(options));
    std::string text;
    const GenerateCalls calls{.emit =
                                  [&](int32_t token) {
                                    const std::string_view piece = tokenizer.piece(token);
                                    text += piece;
                                    if (request.on_piece) request.on_piece(piece);
                                    return true;
                                  },
                              .note = request.on_note};
    trireme::generate(loaded.ctx(), loaded.decoder(), tokenizer,
                      {{value_or_fail(tokenizer.encode(request.prompt)), options, calls}},
                      request.num_tokens);
    return text;
  });
}

}  // namespace trireme::api
