#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "base/result.h"
#include "data/prepare.h"

namespace trireme {

// `trireme data prepare TEXT...`: train.tok, val.tok and tokenizer.json in a folder.
struct DataPrepareOptions {
  TextInput input;                   // files, folders, "-"; the format and field of JSON lines
  std::string tokenizer;             // "byte" or the path of a tokenizer.json
  std::string out = "data";          // the folder, made where it is missing
  double val_fraction = 0.05;        // of the documents, or of the tokens at the end; 0: no val.tok
  HeldOut held_out = HeldOut::Auto;  // what becomes validation text
  uint64_t seed = 1337;              // of the choice of documents
  int num_threads = 0;               // 0: all cores
};

// `trireme data inspect FILE`: what a token file holds; a name that ends in .bin is that of a file
// of nanoGPT or llm.c.
struct DataInspectOptions {
  std::string file;
  bool verify = false;    // compare all checksums (small files: always)
  bool json = false;      // one JSON object instead of lines
  std::string baselines;  // a training token file: unigram and bigram cross-entropies of `file`
  std::string tokenizer;  // with head: "byte" or the path of a tokenizer.json
  int64_t head = 0;       // print that many of the first tokens as text
};

// `trireme data import FILE`: a token file of nanoGPT's or llm.c's tokens.
struct DataImportOptions {
  std::string file;
  std::string tokenizer;   // "": vocab_size says how many tokens there are
  int64_t vocab_size = 0;  // 0: the tokenizer's
  std::string out;
};

// `trireme data export FILE.tok`: nanoGPT's or llm.c's tokens of a token file.
struct DataExportOptions {
  std::string file;
  std::string format = "nanogpt";  // "llmc"
  std::string out;
};

// "auto", "documents", "tail"
Result<HeldOut> parse_held_out(std::string_view name);

// Data goes to `out`, progress and remarks to `err`.
Status run_data_prepare(const DataPrepareOptions& options, std::ostream& out, std::ostream& err);
Status run_data_import(const DataImportOptions& options, std::ostream& out);
Status run_data_export(const DataExportOptions& options, std::ostream& out);
Status run_data_inspect(const DataInspectOptions& options, std::ostream& out, std::ostream& err);

}  // namespace trireme
