#include "cli/data_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <vector>

#include "base/hash.h"
#include "base/json_text.h"
#include "base/nearest_name.h"
#include "base/units.h"
#include "cli/number_text.h"
#include "cli/text_options.h"
#include "data/baselines.h"
#include "data/foreign_token_file.h"
#include "data/token_file.h"
#include "device/thread_team.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

double bytes_per_token(const TokenFileHeader& header) {
  return static_cast<double>(header.text_bytes) /
         static_cast<double>(std::max<int64_t>(1, header.num_tokens));
}

std::string describe(const std::string& path, const TokenFileHeader& header) {
  return fmt::format("{}: {}, {}, {} bytes of text, {:.3f} bytes per token\n", path,
                     format_counted(header.num_tokens, "token"),
                     format_counted(header.num_documents, "document"), header.text_bytes,
                     bytes_per_token(header));
}

// Says whether and how a run can verify the tokens.
std::string describe_chunks(const TokenFileHeader& header) {
  if (!header.has_chunk_checksums) {
    return fmt::format(
        "chunk checksums: none (version 1): training verifies only files below {}; `trireme data "
        "prepare` writes files with chunk checksums\n",
        format_bytes(TokenFile::kVerifiedAtOpen));
  }
  return fmt::format("chunk checksums: {} of {} each\n", header.num_chunks(),
                     format_bytes(kTokenChunkBytes));
}

void print_lines(const TokenFile& file, bool is_verified, const std::optional<Baselines>& baselines,
                 std::ostream& out) {
  const TokenFileHeader& header = file.header();
  out << describe(file.path(), header)
      << fmt::format("vocabulary: {} tokens of {} bytes, tokenizer {}\n", header.vocab_size,
                     header.token_bytes, hex64(header.tokenizer_hash))
      << fmt::format("checksum: {} ({})\n", hex64(header.payload_hash),
                     is_verified ? "verified" : "not verified; use --verify")
      << describe_chunks(header);
  if (header.has_loss_mask) out << "loss mask: the loss leaves out the tokens that it marks\n";
  if (!baselines) return;
  const auto line = [&](const char* name, double nats, double bits) {
    out << fmt::format("{} baseline: {:.4f} nats per token, {:.4f} bits per byte\n", name, nats,
                       bits);
  };
  line("unigram", baselines->unigram_nats, baselines->unigram_bits_per_byte);
  line("bigram", baselines->bigram_nats, baselines->bigram_bits_per_byte);
  out << fmt::format("counted on {} training tokens\n", baselines->train_tokens);
}

void print_object(const nlohmann::ordered_json& object, std::ostream& out) {
  out << lenient_json_text(object) << '\n';
}

void print_json(const TokenFile& file, bool is_verified, const std::optional<Baselines>& baselines,
                std::ostream& out) {
  const TokenFileHeader& header = file.header();
  nlohmann::ordered_json object = {{"file", file.path()},
                                   {"tokens", header.num_tokens},
                                   {"documents", header.num_documents},
                                   {"text_bytes", header.text_bytes},
                                   {"bytes_per_token", bytes_per_token(header)},
                                   {"vocab_size", header.vocab_size},
                                   {"token_bytes", header.token_bytes},
                                   {"tokenizer", hex64(header.tokenizer_hash)},
                                   {"checksum", hex64(header.payload_hash)},
                                   {"chunk_checksums", header.has_chunk_checksums},
                                   {"loss_mask", header.has_loss_mask},
                                   {"verified", is_verified}};
  if (baselines) {
    object["unigram_nats"] = baselines->unigram_nats;
    object["bigram_nats"] = baselines->bigram_nats;
    object["unigram_bits_per_byte"] = baselines->unigram_bits_per_byte;
    object["bigram_bits_per_byte"] = baselines->bigram_bits_per_byte;
    object["baseline_train_tokens"] = baselines->train_tokens;
  }
  print_object(object, out);
}

// Inspects a file of nanoGPT or llm.c.
Status inspect_foreign(const DataInspectOptions& options, CommandIo& io) {
  if (options.head > 0 || !options.baselines.empty()) {
    return Error{ErrorKind::Usage, options.file +
                                       ": --head and --baselines need a token file of Trireme; "
                                       "make one with `trireme data import`"};
  }
  TRIREME_TRY(layout, read_foreign_layout(options.file, io.open_input));
  const bool is_llmc = layout.format == ForeignTokens::Llmc;
  if (options.json) {
    print_object({{"file", options.file},
                  {"format", is_llmc ? "llmc" : "nanogpt"},
                  {"tokens", layout.num_tokens},
                  {"token_bytes", layout.token_bytes},
                  {"checksum", nullptr},
                  {"chunk_checksums", false},
                  {"verified", false}},
                 io.out);
    return Done{};
  }
  io.out
      << fmt::format("{}: {} tokens of {} bytes, {}'s format\n", options.file, layout.num_tokens,
                     layout.token_bytes, is_llmc ? "llm.c" : "nanoGPT")
      << "checksum: none: this format has no checksums, so damage cannot be noticed; `trireme data "
         "import` makes a file that has them\n";
  return Done{};
}

Status print_head(const TokenFile& file, const DataInspectOptions& options, CommandIo& io) {
  TRIREME_TRY(tokenizer, open_tokenizer(options.tokenizer, io.open_input));
  if (tokenizer->hash() != file.header().tokenizer_hash) {
    return Error{ErrorKind::Usage, fmt::format("{} was made with the tokenizer {}, {} is {}",
                                               file.path(), hex64(file.header().tokenizer_hash),
                                               options.tokenizer, hex64(tokenizer->hash()))};
  }
  std::vector<int32_t> tokens(static_cast<size_t>(std::min(options.head, file.num_tokens())));
  file.read(0, tokens);
  io.out << tokenizer->decode(tokens) << '\n';
  return Done{};
}

}  // namespace

Result<HeldOut> parse_held_out(std::string_view name) {
  if (name == "auto") return HeldOut::Auto;
  if (name == "documents") return HeldOut::Documents;
  if (name == "tail") return HeldOut::Tail;
  const std::string nearest = nearest_name(name, {"auto", "documents", "tail"});
  return Error{ErrorKind::Usage,
               fmt::format("held-out text '{}' is not auto, documents or tail{}", name,
                           nearest.empty() ? "" : "; did you mean '" + nearest + "'?")};
}

namespace {

// A finished data set is not replaced. That of an interrupted preparation still has its parts, and
// is continued.
Status check_not_prepared(const std::string& folder) {
  std::error_code ignored;
  const std::string finished = folder + "/train.tok";
  if (!fs::exists(finished, ignored) || fs::exists(folder + "/train.part", ignored)) return Done{};
  return usage(fmt::format("--out {}: {} exists; choose another folder, or remove it first", folder,
                           finished));
}

}  // namespace

Status run_data_prepare(const DataPrepareOptions& options, std::ostream& out, std::ostream& err) {
  TRIREME_TRY_DONE(check_not_prepared(options.out));
  TRIREME_TRY(tokenizer, open_tokenizer(options.tokenizer, options.input.open_input));
  ThreadTeam team(thread_count(options.num_threads));
  TextProgress progress("encoding", err);
  const auto start = std::chrono::steady_clock::now();
  TRIREME_TRY(report, prepare(*tokenizer,
                              {.input = options.input,
                               .out = options.out,
                               .val_fraction = options.val_fraction,
                               .chat_template = options.chat_template.empty()
                                                    ? std::string(ChatTemplate::kUsual)
                                                    : options.chat_template,
                               .held_out = options.held_out,
                               .seed = options.seed,
                               .progress = std::ref(progress)},
                              team));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (report.was_resumed) err << "note: resumed where the previous preparation stopped\n";
  for (const std::string& note : report.notes) err << "note: " << note << '\n';
  const int64_t bytes = report.train.text_bytes + report.val.text_bytes;
  err << fmt::format("encoded {} in {} on {} threads\n", format_bytes(bytes),
                     format_seconds(seconds), team.size());
  const auto print = [&](const char* name, const TokenFileHeader& header, int64_t num_counted) {
    out << describe(options.out + name, header);
    if (header.has_loss_mask) out << fmt::format("the loss counts {} of them\n", num_counted);
  };
  print("/train.tok", report.train, report.train_counted);
  if (report.val.num_tokens > 0) print("/val.tok", report.val, report.val_counted);
  return Done{};
}

Status run_data_import(const DataImportOptions& options, CommandIo& io) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) {
    TRIREME_TRY(opened, open_tokenizer(options.tokenizer, io.open_input));
    tokenizer = std::move(opened);
  } else if (options.vocab_size == 0) {
    return Error{ErrorKind::Usage,
                 "the file does not name its vocabulary: give --tokenizer or --vocab-size"};
  }
  const int64_t vocab_size = options.vocab_size > 0 ? options.vocab_size : tokenizer->vocab_size();
  TRIREME_TRY(header, import_tokens(options.file, {vocab_size, tokenizer.get()}, options.out,
                                    io.open_input));
  io.out << describe(options.out, header);
  return Done{};
}

Status run_data_export(const DataExportOptions& options, CommandIo& io) {
  TRIREME_TRY(file, TokenFile::open_named(options.file, io.open_input));
  const auto format = options.format == "llmc" ? ForeignTokens::Llmc : ForeignTokens::NanoGpt;
  TRIREME_TRY_DONE(export_tokens(file, format, options.out));
  io.out << fmt::format("{}: {} tokens of {} bytes\n", options.out, file.num_tokens(),
                        file.header().token_bytes);
  return Done{};
}

Status run_data_inspect(const DataInspectOptions& options, CommandIo& io) {
  if (options.file.ends_with(".bin")) return inspect_foreign(options, io);
  TRIREME_TRY(file, TokenFile::open_named(options.file, io.open_input));
  if (options.verify) TRIREME_TRY_DONE(file.verify());
  const bool is_verified =
      options.verify || file.header().file_bytes() < TokenFile::kVerifiedAtOpen;
  std::optional<Baselines> baselines;
  if (!options.baselines.empty()) {
    if (file.header().has_loss_mask) {
      return Error{ErrorKind::Usage,
                   options.file +
                       " has a loss mask: baselines count every token, so no loss of this file "
                       "compares with them; leave --baselines out"};
    }
    TRIREME_TRY(train, TokenFile::open_named(options.baselines, io.open_input));
    TRIREME_TRY(measured, measure_baselines(train, file));
    baselines = measured;
  }
  (options.json ? print_json : print_lines)(file, is_verified, baselines, io.out);
  return options.head > 0 ? print_head(file, options, io) : Status(Done{});
}

}  // namespace trireme
