#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/command_io.h"
#include "data/prepare.h"

namespace trireme {

// `trireme data prepare TEXT...`: writes train.tok, val.tok and tokenizer.json into a folder.
struct DataPrepareOptions {
  TextInput input;                   // files, folders or "-"; format and field of JSON lines
  std::string tokenizer;             // "byte" or the path of a tokenizer.json
  std::string out = "data";          // output folder; created if missing
  double val_fraction = 0.05;        // of the documents, or of the tokens at the end; 0: no val.tok
  HeldOut held_out = HeldOut::Auto;  // which text is held out for validation
  uint64_t seed = 1337;              // of the choice of documents
  std::string chat_template;         // for --format chat; "": ChatTemplate::kUsual
  int num_threads = 0;               // 0: all cores
};

// `trireme data inspect FILE`: prints what a token file contains. A name that ends in .bin is a
// file of nanoGPT or llm.c.
struct DataInspectOptions {
  std::string file;
  bool verify = false;  // compares all checksums (always done for small files)
  bool json = false;    // prints one JSON object instead of lines
  // A training token file: prints unigram and bigram cross-entropies of `file`.
  std::string baselines;
  std::string tokenizer;  // for head: "byte" or the path of a tokenizer.json
  int64_t head = 0;       // prints this many of the first tokens as text
};

// `trireme data import FILE`: makes a token file from tokens of nanoGPT or llm.c.
struct DataImportOptions {
  std::string file;
  std::string tokenizer;   // "": vocab_size is given instead
  int64_t vocab_size = 0;  // 0: that of the tokenizer
  std::string out;
};

// `trireme data export FILE.tok`: writes a token file in the format of nanoGPT or llm.c.
struct DataExportOptions {
  std::string file;
  std::string format = "nanogpt";  // or "llmc"
  std::string out;
};

// The names are "auto", "documents" and "tail".
Result<HeldOut> parse_held_out(std::string_view name);

// Data go to `out`, progress and notes to `err`.
Status run_data_prepare(const DataPrepareOptions& options, std::ostream& out, std::ostream& err);
// These read files of a store, too (CommandIo::open_input).
Status run_data_import(const DataImportOptions& options, CommandIo& io);
Status run_data_export(const DataExportOptions& options, CommandIo& io);
Status run_data_inspect(const DataInspectOptions& options, CommandIo& io);

}  // namespace trireme
