#include "cli/tokenizer_interchange_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <ostream>

#include "base/hash.h"
#include "cli/path_checks.h"
#include "cli/text_options.h"
#include "tokenizer/foreign_tokenizer.h"

namespace trireme {
namespace {

std::string describe(const Tokenizer& tokenizer) {
  return fmt::format("{} tokenizer with {} tokens, text ends with {} (token {}), checksum {}\n",
                     tokenizer.kind(), tokenizer.vocab_size(),
                     tokenizer.piece(tokenizer.end_of_text()), tokenizer.end_of_text(),
                     hex64(tokenizer.hash()));
}

}  // namespace

Status run_tokenizer_import(const TokenizerImportOptions& options, std::ostream& out) {
  TRIREME_TRY_DONE(require_here(options.path));
  TRIREME_TRY_DONE(require_new(options.out));
  ForeignTokenizerOptions foreign{.end_of_text = options.end_of_text};
  if (!options.pre_tokenizer.empty()) {
    foreign.pre_tokenizer = pre_tokenizer_named(options.pre_tokenizer);
  }
  TRIREME_TRY(tokenizer, load_foreign_tokenizer(options.path, foreign));
  TRIREME_TRY_DONE(save_tokenizer(*tokenizer, options.out));
  TRIREME_TRY(again, load_tokenizer(options.out));
  if (again->hash() != tokenizer->hash()) {
    return Error{ErrorKind::Damaged, options.out + " does not read back as what was written"};
  }
  out << options.out << ": " << describe(*tokenizer);
  return Done{};
}

Status run_tokenizer_export(const TokenizerExportOptions& options, CommandIo& io) {
  TRIREME_TRY(tokenizer, open_tokenizer(options.tokenizer, io.open_input));
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  if (error) return Error{ErrorKind::Damaged, options.out + ": " + error.message()};
  TRIREME_TRY_DONE(write_hugging_face_tokenizer(*tokenizer, options.seq_len, options.out));
  io.out << options.out << ": " << describe(*tokenizer);
  return Done{};
}

}  // namespace trireme
