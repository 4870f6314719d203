#include "data/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "data/chat_encoder.h"
#include "data/part_file.h"
#include "data/prepare_state.h"
#include "data/token_file_writer.h"
#include "data/val_split.h"
#include "tokenizer/text_encoder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTextBetweenSyncs = int64_t{64} << 20;
constexpr size_t kManyFiles = 100;

HeldOut resolve(HeldOut held_out, const std::vector<TextFile>& files) {
  if (held_out != HeldOut::Auto) return held_out;
  if (files.size() >= kManyFiles) return HeldOut::Documents;
  for (const TextFile& file : files) {
    if (file.format != TextFormat::Text) return HeldOut::Documents;
  }
  return HeldOut::Tail;
}

Status check_options(const PrepareOptions& options) {
  if (!(options.val_fraction >= 0.0 && options.val_fraction < 1.0)) {
    return Error{ErrorKind::Usage,
                 fmt::format("a validation fraction of {} is not in [0, 1)", options.val_fraction)};
  }
  std::error_code ignored;
  if (fs::exists(options.out, ignored) && !fs::is_directory(options.out, ignored)) {
    return usage(options.out + ": a file, but the token files need a folder; choose another one");
  }
  return Done{};
}

Status make_folder(const std::string& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  return failure ? Status(damaged(folder + ": " + failure.message())) : Status(Done{});
}

// One run from text to token files.
class Preparation {
 public:
  // `chat` is present if the documents are conversations.
  Preparation(const Tokenizer& tokenizer, const PrepareOptions& options, ThreadTeam& team,
              TextReader reader, const std::optional<ChatTemplate>& chat)
      : tokenizer_(tokenizer),
        options_(options),
        encoder_(tokenizer, team),
        reader_(std::move(reader)),
        held_out_(resolve(options.held_out, reader_.files())),
        val_split_(options.seed, held_out_ == HeldOut::Documents ? options.val_fraction : 0.0) {
    if (chat) chat_encoder_.emplace(tokenizer, *chat, team);
  }

  Result<PrepareReport> run();

 private:
  std::string path(const char* name) const { return (fs::path(options_.out) / name).string(); }
  bool can_resume() const { return reader_.can_seek(); }
  uint64_t inputs_hash() const;
  Status start();
  Status encode_all();
  Status route(const TextEncoder::Encoded& encoded);
  Status keep_state(int64_t unused_bytes);
  Result<PrepareReport> finish();
  Result<TokenFileHeader> write(const char* name, const PartFile& part, int64_t begin, int64_t end,
                                int64_t& num_counted) const;
  void remove_parts() const;

  const Tokenizer& tokenizer_;
  const PrepareOptions& options_;
  TextEncoder encoder_;
  std::optional<ChatEncoder> chat_encoder_;
  TextReader reader_;
  HeldOut held_out_;
  ValSplit val_split_;
  std::unique_ptr<PartFile> train_;
  std::unique_ptr<PartFile> val_;
  int64_t document_ = 0;  // number of the document of the next token
  bool was_resumed_ = false;
  bool is_text_good_ = true;  // false while a block is read and encoded, so after its failure too
};

uint64_t Preparation::inputs_hash() const {
  std::string all = fmt::format("{} {} {} {} {} {}", tokenizer_.hash(), tokenizer_.vocab_size(),
                                options_.val_fraction, static_cast<int>(held_out_), options_.seed,
                                options_.input.field);
  if (chat_encoder_) all += options_.chat_template;
  for (const TextFile& file : reader_.files()) {
    std::error_code failure;
    const auto changed = fs::last_write_time(file.path, failure).time_since_epoch().count();
    all +=
        fmt::format("\n{} {} {} {}", file.path, static_cast<int>(file.format), file.bytes, changed);
    if (file.checksum != 0) all += fmt::format(" {}", file.checksum);
  }
  return hash64(all);
}

Status Preparation::start() {
  PrepareState state;
  if (can_resume()) {
    if (auto stored = load_prepare_state(path("prepare.state"), inputs_hash())) {
      state = *stored;
      was_resumed_ = true;
      TRIREME_TRY_DONE(reader_.seek(state.position, state.report));
    }
  }
  document_ = state.report.num_documents;
  TRIREME_TRY(train, PartFile::open(path("train.part"), state.train_tokens));
  TRIREME_TRY(val, PartFile::open(path("val.part"), state.val_tokens));
  train_ = std::make_unique<PartFile>(std::move(train));
  val_ = std::make_unique<PartFile>(std::move(val));
  return Done{};
}

Status Preparation::encode_all() {
  TextBatch batch;
  TextEncoder::Encoded encoded;
  int64_t kept_bytes = reader_.report().text_bytes;
  while (true) {
    is_text_good_ = false;
    TRIREME_TRY(more, reader_.read(batch, options_.block_bytes));
    TRIREME_TRY_DONE(chat_encoder_ ? chat_encoder_->encode(batch, reader_, encoded)
                                   : encoder_.encode(batch, encoded));
    is_text_good_ = true;
    TRIREME_TRY_DONE(route(encoded));
    const int64_t read_bytes = reader_.report().text_bytes;
    if (options_.progress) options_.progress(read_bytes, reader_.total_bytes());
    if (!more) break;
    const bool stops = options_.stop && options_.stop();
    if (stops || read_bytes - kept_bytes >= kTextBetweenSyncs) {
      TRIREME_TRY_DONE(keep_state(static_cast<int64_t>(batch.text.size())));
      kept_bytes = read_bytes;
    }
    if (stops) {
      return Error{ErrorKind::Runtime, "stopped; the same command resumes from " +
                                           fmt::format("{} bytes of text", read_bytes)};
    }
  }
  TRIREME_CHECK(batch.text.empty(), "text was left over after the last document");
  return keep_state(0);
}

// Every document goes completely into one of the two part files.
Status Preparation::route(const TextEncoder::Encoded& encoded) {
  const std::span<const int32_t> tokens(encoded.tokens);
  size_t begin = 0;
  const auto append = [&](size_t end) {
    PartFile& part = val_split_.holds_out(document_) ? *val_ : *train_;
    return part.append(tokens.subspan(begin, end - begin));
  };
  for (size_t end : encoded.document_ends) {
    TRIREME_TRY_DONE(append(end));
    begin = end;
    ++document_;
  }
  return append(tokens.size());
}

Status Preparation::keep_state(int64_t unused_bytes) {
  TRIREME_TRY_DONE(train_->sync());
  TRIREME_TRY_DONE(val_->sync());
  if (!can_resume()) return Done{};
  PrepareState state{.inputs_hash = inputs_hash(),
                     .position = reader_.position(unused_bytes),
                     .report = reader_.report(),
                     .train_tokens = train_->num_tokens(),
                     .val_tokens = val_->num_tokens()};
  state.report.text_bytes -= unused_bytes;  // these bytes will be read again
  return save_prepare_state(state, path("prepare.state"));
}

// Copies tokens begin .. end - 1 of a part file.
Result<TokenFileHeader> Preparation::write(const char* name, const PartFile& part, int64_t begin,
                                           int64_t end, int64_t& num_counted) const {
  TRIREME_TRY(writer, TokenFileWriter::create(path(name), tokenizer_.vocab_size(),
                                              tokenizer_.hash(), chat_encoder_.has_value()));
  std::vector<int64_t> piece_bytes(static_cast<size_t>(tokenizer_.vocab_size()));
  for (int32_t token = 0; token < tokenizer_.vocab_size(); ++token) {
    piece_bytes[token] = static_cast<int64_t>(tokenizer_.piece(token).size());
  }
  piece_bytes[tokenizer_.end_of_text()] = 0;
  TokenFileWriter::Totals totals;
  std::vector<int32_t> tokens;
  for (; begin < end; begin += static_cast<int64_t>(tokens.size())) {
    tokens.resize(static_cast<size_t>(std::min(kTokensPerCopy, end - begin)));
    TRIREME_TRY_DONE(part.read(begin, tokens));
    TRIREME_TRY_DONE(writer.append(tokens));
    for (int32_t stored : tokens) {
      const int32_t token = token_of(stored);
      totals.num_documents += token == tokenizer_.end_of_text();
      totals.text_bytes += piece_bytes[token];
      num_counted += is_counted(stored);
    }
  }
  if (num_counted == 0) {
    return usage(path(name) +
                 ": no token would count in the loss: no conversation here has a completion or a "
                 "message of an assistant");
  }
  return writer.finish(totals);
}

Result<PrepareReport> Preparation::finish() {
  PrepareReport report{.notes = reader_.notes(), .was_resumed = was_resumed_};
  const bool has_val = options_.val_fraction > 0.0;
  const bool cuts_tail = has_val && held_out_ == HeldOut::Tail;
  const PartFile& val_part = cuts_tail ? *train_ : *val_;
  const int64_t val_end = val_part.num_tokens();
  const double tail = static_cast<double>(val_end) * options_.val_fraction;
  const int64_t val_begin = cuts_tail ? std::min(val_end - 1, val_end - std::lround(tail)) : 0;
  const int64_t train_end = cuts_tail ? val_begin : train_->num_tokens();
  if (train_end == 0 || (has_val && val_end == 0)) {
    return Error{
        ErrorKind::Usage,
        fmt::format(
            "with {0} documents and a validation fraction of {2} no document is left for {1}; "
            "take another fraction, or hold out the tail",
            document_, train_end == 0 ? "training" : "validation", options_.val_fraction)};
  }
  TRIREME_TRY_DONE(save_tokenizer(tokenizer_, path("tokenizer.json")));
  TRIREME_TRY(train_header, write("train.tok", *train_, 0, train_end, report.train_counted));
  report.train = train_header;
  if (has_val) {
    TRIREME_TRY(val_header, write("val.tok", val_part, val_begin, val_end, report.val_counted));
    report.val = val_header;
  } else {  // removes the file of an earlier preparation, which has other text
    std::error_code failure;
    fs::remove(path("val.tok"), failure);
    if (failure) return Error{ErrorKind::Damaged, path("val.tok") + ": " + failure.message()};
  }
  return report;
}

Result<PrepareReport> Preparation::run() {
  TRIREME_TRY_DONE(start());
  const auto encoded = encode_all();
  auto report = encoded.ok() ? finish() : Result<PrepareReport>(encoded.error());
  // After a failure that may be temporary (a full disk, a signal) the same command resumes.
  const bool may_pass = is_text_good_ && !report.ok() && report.error().kind != ErrorKind::Usage;
  const bool resumes = may_pass && can_resume();
  if (!resumes) remove_parts();
  return report;
}

void Preparation::remove_parts() const {
  for (const char* name : {"prepare.state", "train.part", "val.part"}) {
    std::error_code ignored;
    fs::remove(path(name), ignored);
  }
}

}  // namespace

Result<PrepareReport> prepare(const Tokenizer& tokenizer, const PrepareOptions& options,
                              ThreadTeam& team) {
  TRIREME_TRY_DONE(check_options(options));
  std::optional<ChatTemplate> chat;
  if (options.input.format == TextFormat::Chat) {
    TRIREME_TRY(parsed, ChatTemplate::parse(options.chat_template));
    chat = std::move(parsed);
  }
  TRIREME_TRY(reader, TextReader::open(options.input));
  TRIREME_TRY_DONE(make_folder(options.out));
  return Preparation(tokenizer, options, team, std::move(reader), chat).run();
}

}  // namespace trireme
