#include "session/session_data.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"
#include "base/hash.h"
#include "data/documents.h"
#include "data/file_source.h"
#include "data/mixture_source.h"
#include "data/synthetic_source.h"
#include "kernels/loss/cross_entropy.h"
#include "session/image_data.h"

namespace trireme {

static_assert(kUncountedTarget == kIgnoredTarget);

namespace {

bool is_synthetic(const RunConfig& config) { return config.data.source == DataSource::Synthetic; }

Status check_source(const RunConfig& config) {
  if (is_synthetic(config)) return Done{};
  if (config.data.train.empty() && config.data.train_mixture.empty()) {
    return Error{ErrorKind::Usage,
                 "data.train is empty: name a token file of `trireme data prepare`, or set "
                 "data.source = \"synthetic\""};
  }
  return Done{};
}

Status check_tokenizer(const Tokenizer& tokenizer, const TokenFile& file) {
  if (tokenizer.hash() == file.header().tokenizer_hash) return Done{};
  return Error{
      ErrorKind::Usage,
      fmt::format("data.tokenizer (hash {}) did not make {} (tokenizer hash {}): prepare "
                  "the data again with it, or name the tokenizer that did",
                  hex64(tokenizer.hash()), file.path(), hex64(file.header().tokenizer_hash))};
}

void note_unverified(const TokenFile& file, std::vector<std::string>& notes) {
  const TokenFileHeader& header = file.header();
  if (header.has_chunk_checksums || header.file_bytes() < TokenFile::kVerifiedAtOpen) return;
  notes.push_back(
      fmt::format("{} has no chunk checksums, so the run does not notice damage in it; "
                  "`trireme data inspect --verify` checks the file, and `trireme data "
                  "prepare` writes a file with checksums",
                  file.path()));
}

double bytes_per_token(const TokenFile& file) {
  return double(file.header().text_bytes) / double(std::max<int64_t>(1, file.num_tokens()));
}

// Uses the tokenizer.json that `data prepare` writes beside its token files, if it fits the file.
void take_tokenizer_beside(const TokenFile& file, SessionData& data) {
  const auto path = std::filesystem::path(file.path()).parent_path() / "tokenizer.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  Result<std::string> text = read_text_file(path.string());
  auto tokenizer =
      text.ok() ? parse_tokenizer(*text) : Result<std::unique_ptr<Tokenizer>>(text.error());
  if (!tokenizer.ok() || (*tokenizer)->hash() != file.header().tokenizer_hash) return;
  data.notes.push_back(fmt::format("data.tokenizer is not set: {} is taken, which has made {}",
                                   path.string(), file.path()));
  data.tokenizer = std::move(*tokenizer);
  data.tokenizer_json = std::move(*text);
}

// Puts the key in front of an error about a file of [data], so that the user finds its place in the
// configuration.
template <typename T>
Result<T> of_key(const char* key, const std::string& value, Result<T> opened) {
  if (opened.ok()) return opened;
  return Error{opened.error().kind,
               fmt::format("{} = \"{}\" cannot be used: {}", key, value, opened.error().message)};
}

Result<TokenFile> open_tokens(const char* key, const std::string& name,
                              const OpenInput& open_input) {
  return of_key(key, name, TokenFile::open_named(name, open_input));
}

Status check_train_file(const TokenFile& file, SessionData& data) {
  if (data.tokenizer != nullptr) TRIREME_TRY_DONE(check_tokenizer(*data.tokenizer, file));
  if (data.tokenizer == nullptr) take_tokenizer_beside(file, data);
  note_unverified(file, data.notes);
  return Done{};
}

// The token that ends a document (data.document_mask). Generated tokens have no tokenizer; the last
// one of their vocabulary is as rare as any other.
Result<int32_t> document_end(const RunConfig& config, const SessionData& data, int64_t vocab_size) {
  if (is_synthetic(config)) return int32_t(vocab_size - 1);
  if (data.tokenizer != nullptr) return data.tokenizer->end_of_text();
  return usage(
      "data.document_mask needs the token that ends a document, and the token file does not name "
      "it: set data.tokenizer to the tokenizer.json that made the file, or data.document_mask = "
      "false");
}

Status mask_documents(const RunConfig& config, int64_t vocab_size, SessionData& data) {
  if (!config.data.document_mask) return Done{};
  TRIREME_TRY(end, document_end(config, data, vocab_size));
  data.train = std::make_unique<DocumentSource>(std::move(data.train), end);
  if (data.validation != nullptr) {
    data.validation = std::make_unique<DocumentSource>(std::move(data.validation), end);
  }
  data.bytes_per_token = 0.0;  // the loss leaves out the first token of every document
  return Done{};
}

Status open_mixture(const RunConfig& config, const OpenInput& open_input, SessionData& data) {
  const uint64_t seed = config.run.seed;
  std::vector<FileSource> files;
  std::vector<double> weights;
  std::string identity;
  for (const WeightedFile& file : config.data.train_mixture) {
    TRIREME_TRY(tokens, open_tokens("data.train", file.path, open_input));
    TRIREME_TRY(source, of_key("data.train", file.path,
                               MixtureSource::part(std::move(tokens), seed, files.size(),
                                                   config.model.seq_len)));
    TRIREME_TRY_DONE(check_train_file(source.file(), data));
    identity += fmt::format("{} {}\n", hex64(source.file().header().payload_hash), file.weight);
    weights.push_back(file.weight);
    files.push_back(std::move(source));
  }
  TRIREME_TRY(mixture, MixtureSource::make(seed, std::move(files), weights));
  data.identity = hex64(hash64(identity));
  data.train = std::make_unique<MixtureSource>(std::move(mixture));
  return Done{};
}

}  // namespace

Result<int64_t> data_vocab_size(const RunConfig& config, const OpenInput& open_input) {
  if (reads_images(config.model.family)) return num_image_classes(config);
  const DataConfig& data = config.data;
  const bool vocabulary_is_given =
      config.model.vocab_size > 0 && data.train.empty() && data.train_mixture.empty();
  if (is_synthetic(config) || vocabulary_is_given) return int64_t{0};
  TRIREME_TRY_DONE(check_source(config));
  const std::string& path =
      data.train_mixture.empty() ? data.train : data.train_mixture.front().path;
  TRIREME_TRY(file, open_tokens("data.train", path, open_input));
  return file.vocab_size();
}

Result<SessionData> open_session_data(const RunConfig& config, int64_t vocab_size,
                                      const OpenInput& open_input) {
  if (reads_images(config.model.family)) return open_image_data(config, vocab_size);
  TRIREME_TRY_DONE(check_source(config));
  SessionData data;
  const uint64_t seed = config.run.seed;
  if (!config.data.tokenizer.empty()) {
    TRIREME_TRY(tokenizer, of_key("data.tokenizer", config.data.tokenizer,
                                  load_tokenizer(config.data.tokenizer)));
    data.tokenizer = std::move(tokenizer);
    TRIREME_TRY(text, read_text_file(config.data.tokenizer));
    data.tokenizer_json = text;
  }
  if (is_synthetic(config)) {
    data.train = std::make_unique<SyntheticSource>(seed, vocab_size);
    data.validation = std::make_unique<SyntheticSource>(seed, vocab_size, "val");
    data.identity = fmt::format("synthetic-{}-{}", seed, vocab_size);
    TRIREME_TRY_DONE(mask_documents(config, vocab_size, data));
    return data;
  }
  if (config.data.train_mixture.empty()) {
    TRIREME_TRY(tokens, open_tokens("data.train", config.data.train, open_input));
    TRIREME_TRY(train, of_key("data.train", config.data.train,
                              FileSource::make(std::move(tokens), seed, config.model.seq_len)));
    data.identity = hex64(train.file().header().payload_hash);
    TRIREME_TRY_DONE(check_train_file(train.file(), data));
    data.train = std::make_unique<FileSource>(std::move(train));
  } else {
    TRIREME_TRY_DONE(open_mixture(config, open_input, data));
  }
  if (!config.data.val.empty()) {
    TRIREME_TRY(tokens, open_tokens("data.val", config.data.val, open_input));
    TRIREME_TRY(validation,
                of_key("data.val", config.data.val,
                       SequentialSource::make(std::move(tokens), config.model.seq_len)));
    if (data.tokenizer != nullptr) {
      TRIREME_TRY_DONE(check_tokenizer(*data.tokenizer, validation.file()));
    }
    // With a loss mask, the bytes of the tokens that the loss counts are not known.
    if (!validation.file().header().has_loss_mask) {
      data.bytes_per_token = bytes_per_token(validation.file());
    }
    note_unverified(validation.file(), data.notes);
    data.validation = std::make_unique<SequentialSource>(std::move(validation));
  }
  TRIREME_TRY_DONE(mask_documents(config, vocab_size, data));
  return data;
}

}  // namespace trireme
