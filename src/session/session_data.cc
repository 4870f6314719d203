#include "session/session_data.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/hash.h"
#include "data/file_source.h"
#include "data/synthetic_source.h"

namespace trireme {
namespace {

bool is_synthetic(const RunConfig& config) { return config.data.source == DataSource::Synthetic; }

Status check_source(const RunConfig& config) {
  if (is_synthetic(config)) return Done{};
  if (config.data.train.empty()) {
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

}  // namespace

Result<int64_t> data_vocab_size(const RunConfig& config) {
  const bool vocabulary_is_given = config.model.vocab_size > 0 && config.data.train.empty();
  if (is_synthetic(config) || vocabulary_is_given) return int64_t{0};
  TRIREME_TRY_DONE(check_source(config));
  TRIREME_TRY(file, TokenFile::open(config.data.train));
  return file.vocab_size();
}

Result<SessionData> open_session_data(const RunConfig& config, int64_t vocab_size) {
  TRIREME_TRY_DONE(check_source(config));
  SessionData data;
  const uint64_t seed = config.run.seed;
  if (!config.data.tokenizer.empty()) {
    TRIREME_TRY(tokenizer, load_tokenizer(config.data.tokenizer));
    data.tokenizer = std::move(tokenizer);
    TRIREME_TRY(text, read_text_file(config.data.tokenizer));
    data.tokenizer_json = text;
  }
  if (is_synthetic(config)) {
    data.train = std::make_unique<SyntheticSource>(seed, vocab_size);
    data.validation = std::make_unique<SyntheticSource>(seed, vocab_size, "val");
    data.identity = fmt::format("synthetic-{}-{}", seed, vocab_size);
    return data;
  }
  TRIREME_TRY(train, FileSource::open(config.data.train, seed, config.model.seq_len));
  data.identity = hex64(train.file().header().payload_hash);
  if (data.tokenizer != nullptr) TRIREME_TRY_DONE(check_tokenizer(*data.tokenizer, train.file()));
  note_unverified(train.file(), data.notes);
  data.train = std::make_unique<FileSource>(std::move(train));
  if (!config.data.val.empty()) {
    TRIREME_TRY(validation, SequentialSource::open(config.data.val, config.model.seq_len));
    if (data.tokenizer != nullptr) {
      TRIREME_TRY_DONE(check_tokenizer(*data.tokenizer, validation.file()));
    }
    data.bytes_per_token = bytes_per_token(validation.file());
    note_unverified(validation.file(), data.notes);
    data.validation = std::make_unique<SequentialSource>(std::move(validation));
  }
  return data;
}

}  // namespace trireme
