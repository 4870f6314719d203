#include "cli/tokenizer_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/nearest_name.h"
#include "base/units.h"
#include "cli/path_checks.h"
#include "cli/text_options.h"
#include "data/token_file.h"
#include "device/thread_team.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/char_tokenizer.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/text_encoder.h"

namespace trireme {
namespace {

void print_notes(const TextReader& reader, std::ostream& err) {
  for (const std::string& note : reader.notes()) err << "note: " << note << '\n';
}

// Calls visit(batch) for every block. visit removes what it needs from the front of the batch.
template <typename Visit>
Status for_each_batch(TextReader& reader, const char* what, std::ostream& err, Visit&& visit) {
  TextProgress progress(what, err);
  TextBatch batch;
  while (true) {
    TRIREME_TRY(more, reader.read(batch));
    TRIREME_TRY_DONE(visit(batch));
    progress(reader.report().text_bytes, reader.total_bytes());
    if (!more) break;
  }
  print_notes(reader, err);
  return Done{};
}

Result<std::unique_ptr<Tokenizer>> train_bpe_tokenizer(const TokenizerTrainOptions& options,
                                                       TextReader& reader, std::ostream& err) {
  ThreadTeam team(thread_count(options.num_threads));
  WordCounter counter(team);
  TRIREME_TRY_DONE(for_each_batch(reader, "counting words", err, [&](TextBatch& batch) -> Status {
    counter.count(batch);
    return Done{};
  }));
  const WordCounts words = counter.finish();
  BpeTrainOptions train{.vocab_size = options.vocab_size,
                        .min_pair_count = static_cast<uint64_t>(options.min_pair_count)};
  train.progress = [&err](int64_t merges, int64_t wanted) {
    if (merges % 10000 == 0)
      err << fmt::format("merging: {} of {}\n", merges, wanted) << std::flush;
  };
  TRIREME_TRY(tokenizer, train_bpe(words, train));
  if (tokenizer.vocab_size() < options.vocab_size) {
    err << fmt::format(
        "note: no remaining pair occurs {} times, so the vocabulary has only {} tokens\n",
        options.min_pair_count, tokenizer.vocab_size());
  }
  return std::unique_ptr<Tokenizer>(std::make_unique<BpeTokenizer>(std::move(tokenizer)));
}

Result<std::unique_ptr<Tokenizer>> train_char_tokenizer(TextReader& reader, std::ostream& err) {
  CharTrainer trainer;
  TRIREME_TRY_DONE(for_each_batch(reader, "collecting", err, [&](TextBatch& batch) -> Status {
    const LastSplit last_split = [](std::string_view text) { return last_char_split(text); };
    const size_t bytes = complete_bytes(batch, last_split);
    for (const TextTile& tile : make_tiles(batch, bytes, last_split)) {
      tile.for_each_part([&](std::string_view text, bool) { trainer.add(text); });
    }
    batch.drop_front(bytes);
    return Done{};
  }));
  return std::unique_ptr<Tokenizer>(std::make_unique<CharTokenizer>(trainer.train()));
}

Result<std::unique_ptr<Tokenizer>> train_tokenizer(const TokenizerTrainOptions& options,
                                                   std::ostream& err) {
  if (options.kind == "byte") {
    return std::unique_ptr<Tokenizer>(std::make_unique<ByteTokenizer>());
  }
  if (options.kind != "bpe" && options.kind != "char") {
    const std::string nearest = nearest_name(options.kind, {"byte", "char", "bpe"});
    return Error{ErrorKind::Usage,
                 fmt::format("kind '{}' is not byte, char or bpe{}", options.kind,
                             nearest.empty() ? "" : "; did you mean '" + nearest + "'?")};
  }
  if (options.min_pair_count < 1) {
    return Error{ErrorKind::Usage, fmt::format("a pair that occurs {} times cannot be merged; use "
                                               "1 or more",
                                               options.min_pair_count)};
  }
  TRIREME_TRY(reader, TextReader::open(options.input));
  return options.kind == "bpe" ? train_bpe_tokenizer(options, reader, err)
                               : train_char_tokenizer(reader, err);
}

// Prints one line of numbers per document. The line of an unfinished document continues with the
// next call.
class NumberLines {
 public:
  NumberLines(int32_t end_of_text, bool prints_end, std::ostream& out)
      : end_of_text_(end_of_text), prints_end_(prints_end), out_(out) {}

  void print(const std::vector<int32_t>& tokens) {
    fmt::memory_buffer text;
    for (int32_t token : tokens) {
      if (token != end_of_text_ || prints_end_) {
        fmt::format_to(std::back_inserter(text), "{}{}", is_first_ ? "" : " ", token);
        is_first_ = false;
      }
      if (token == end_of_text_) {
        text.push_back('\n');
        is_first_ = true;
      }
    }
    out_.write(text.data(), static_cast<std::streamsize>(text.size()));
  }

  // Prints a document whose tokens may include end-of-text tokens.
  void print_document(const std::vector<int32_t>& tokens) {
    out_ << fmt::format("{}", fmt::join(tokens, " "));
    if (prints_end_) out_ << (tokens.empty() ? "" : " ") << end_of_text_;
    out_ << '\n';
  }

 private:
  int32_t end_of_text_;
  bool prints_end_;
  std::ostream& out_;
  bool is_first_ = true;
};

// Encodes whole documents, so that no special token is cut.
Status encode_with_special(const Tokenizer& tokenizer, TextReader& reader, NumberLines& lines,
                           std::ostream& err) {
  const SpecialTokenEncoder encoder(tokenizer);
  WordCache cache;
  std::vector<int32_t> tokens;
  return for_each_batch(reader, "encoding", err, [&](TextBatch& batch) -> Status {
    size_t begin = 0;
    for (const size_t end : batch.document_ends) {
      tokens.clear();
      const auto text = std::string_view(batch.text).substr(begin, end - begin);
      TRIREME_TRY_DONE(encoder.append_tokens(text, cache, tokens));
      lines.print_document(tokens);
      begin = end;
    }
    batch.drop_front(begin);
    return Done{};
  });
}

Status decode_token_file(const Tokenizer& tokenizer, const TokenizerDecodeOptions& options,
                         std::ostream& out) {
  const std::string& path = options.input;
  TRIREME_TRY(file, TokenFile::open_named(path, options.open_input));
  if (file.header().tokenizer_hash != tokenizer.hash()) {
    return Error{ErrorKind::Usage,
                 fmt::format("{} was made with the tokenizer {}, this one is {}", path,
                             hex64(file.header().tokenizer_hash), hex64(tokenizer.hash()))};
  }
  std::vector<int32_t> tokens;
  for (int64_t begin = 0; begin < file.num_tokens(); begin += 65536) {
    tokens.resize(static_cast<size_t>(std::min<int64_t>(65536, file.num_tokens() - begin)));
    file.read(begin, tokens);
    out << tokenizer.decode(tokens);
  }
  return Done{};
}

// Writes the pieces of the numbers in a line. `num_before` counts the numbers of the lines before.
Status decode_line(const Tokenizer& tokenizer, std::string_view line, int64_t& num_before,
                   std::ostream& out) {
  constexpr std::string_view kSpaces = " \t";
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(kSpaces), line.size()));
    if (line.empty()) return Done{};
    const std::string_view number = line.substr(0, line.find_first_of(kSpaces));
    line.remove_prefix(number.size());
    ++num_before;
    int32_t token = 0;
    const auto parsed = std::from_chars(number.begin(), number.end(), token);
    const bool is_token = parsed.ec == std::errc() && parsed.ptr == number.end() && token >= 0 &&
                          token < tokenizer.vocab_size();
    if (!is_token) {
      return Error{ErrorKind::Damaged, fmt::format("number {} is '{}', not a token below {}",
                                                   num_before, number, tokenizer.vocab_size())};
    }
    out << tokenizer.piece(token);
  }
}

Status decode_numbers(const Tokenizer& tokenizer, const TokenizerDecodeOptions& options,
                      std::ostream& out) {
  TRIREME_TRY(reader, TextReader::open({.paths = {options.input},
                                        .format = TextFormat::Lines,
                                        .open_input = options.open_input}));
  int64_t num_tokens = 0;
  for (bool more = true; more;) {
    TextBatch batch;
    TRIREME_TRY(read, reader.read(batch));
    more = read;
    size_t begin = 0;
    for (size_t end : batch.document_ends) {
      const std::string_view line = std::string_view(batch.text).substr(begin, end - begin);
      auto decoded = decode_line(tokenizer, line, num_tokens, out);
      if (!decoded.ok()) return with_context(decoded.error(), options.input);
      begin = end;
    }
  }
  return Done{};
}

// Compares decoded tokens with the text from which they were made, across batches.
class RoundTrip {
 public:
  explicit RoundTrip(const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), was_met_(static_cast<size_t>(tokenizer.vocab_size())) {}

  Status compare(std::string_view text, const std::vector<int32_t>& tokens) {
    for (int32_t token : tokens) {
      was_met_[token] = true;
      if (token == tokenizer_.end_of_text()) continue;
      ++num_tokens_;
      const std::string_view piece = tokenizer_.piece(token);
      if (text.substr(0, piece.size()) != piece) {
        return Error{ErrorKind::Damaged,
                     fmt::format("byte {} of the text is not restored: token {} is \"{}\", but the "
                                 "text continues with \"{}\"",
                                 num_bytes_, token, piece, text.substr(0, piece.size()))};
      }
      text.remove_prefix(piece.size());
      num_bytes_ += static_cast<int64_t>(piece.size());
    }
    if (text.empty()) return Done{};
    return Error{ErrorKind::Damaged,
                 fmt::format("the text is not restored from byte {} on", num_bytes_)};
  }

  std::string summary() const {
    return fmt::format("ok: {} bytes, {} tokens, {:.3f} bytes per token, {} of {} tokens used\n",
                       num_bytes_, num_tokens_,
                       static_cast<double>(num_bytes_) / static_cast<double>(num_tokens_),
                       std::count(was_met_.begin(), was_met_.end(), true), was_met_.size());
  }

 private:
  const Tokenizer& tokenizer_;
  std::vector<bool> was_met_;
  int64_t num_bytes_ = 0;
  int64_t num_tokens_ = 0;
};

}  // namespace

Status run_tokenizer_train(const TokenizerTrainOptions& options, std::ostream& out,
                           std::ostream& err) {
  TRIREME_TRY_DONE(require_new(options.out));
  TRIREME_TRY(tokenizer, train_tokenizer(options, err));
  TRIREME_TRY_DONE(save_tokenizer(*tokenizer, options.out));
  out << fmt::format("{}: {} tokenizer with {} tokens, checksum {}\n", options.out,
                     tokenizer->kind(), tokenizer->vocab_size(), hex64(tokenizer->hash()));
  return Done{};
}

Status run_tokenizer_encode(const TokenizerEncodeOptions& options, std::ostream& out,
                            std::ostream& err) {
  TRIREME_TRY(tokenizer, open_tokenizer(options.tokenizer, options.input.open_input));
  TRIREME_TRY(reader, TextReader::open(options.input));
  NumberLines lines(tokenizer->end_of_text(), options.end_of_text, out);
  if (options.special) return encode_with_special(*tokenizer, reader, lines, err);
  ThreadTeam team(thread_count(options.num_threads));
  TextEncoder encoder(*tokenizer, team);
  TextEncoder::Encoded encoded;
  return for_each_batch(reader, "encoding", err, [&](TextBatch& batch) -> Status {
    TRIREME_TRY_DONE(encoder.encode(batch, encoded));
    lines.print(encoded.tokens);
    return Done{};
  });
}

Status run_tokenizer_decode(const TokenizerDecodeOptions& options, std::ostream& out,
                            std::ostream&) {
  TRIREME_TRY(tokenizer, open_tokenizer(options.tokenizer, options.open_input));
  return options.input.ends_with(".tok") ? decode_token_file(*tokenizer, options, out)
                                         : decode_numbers(*tokenizer, options, out);
}

Status run_tokenizer_check(const TokenizerCheckOptions& options, std::ostream& out,
                           std::ostream& err) {
  TRIREME_TRY(tokenizer, open_tokenizer(options.tokenizer, options.input.open_input));
  TRIREME_TRY(reader, TextReader::open(options.input));
  ThreadTeam team(thread_count(options.num_threads));
  TextEncoder encoder(*tokenizer, team);
  TextEncoder::Encoded encoded;
  RoundTrip round_trip(*tokenizer);
  TRIREME_TRY_DONE(for_each_batch(reader, "checking", err, [&](TextBatch& batch) -> Status {
    const std::string before = batch.text;
    TRIREME_TRY_DONE(encoder.encode(batch, encoded));
    const size_t taken = before.size() - batch.text.size();
    return round_trip.compare(std::string_view(before).substr(0, taken), encoded.tokens);
  }));
  out << round_trip.summary();
  return Done{};
}

}  // namespace trireme
