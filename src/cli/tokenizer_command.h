#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "base/result.h"
#include "data/text_reader.h"

namespace trireme {

// `trireme tokenizer train TEXT...`
struct TokenizerTrainOptions {
  TextInput input;                     // files, folders, "-"; the format and field of JSON lines
  std::string kind = "bpe";            // "byte", "char" or "bpe"
  int64_t vocab_size = 50257;          // bpe: bytes, merges and <|endoftext|>
  int64_t min_pair_count = 2;          // bpe: a pair that is met less often is not merged
  std::string out = "tokenizer.json";  // the file to write
  int num_threads = 0;                 // 0: all cores
};

// `trireme tokenizer encode TEXT...`: token numbers, a line per document.
struct TokenizerEncodeOptions {
  std::string tokenizer;      // "byte" or the path of a tokenizer.json
  TextInput input = {{"-"}};  // as for train; standard input by default
  bool end_of_text = false;   // print the end of text that follows each document
  bool special = false;       // special tokens are looked for in the text
  int num_threads = 0;        // 0: all cores
};

// `trireme tokenizer decode FILE`: the text, byte for byte.
struct TokenizerDecodeOptions {
  std::string tokenizer;    // "byte" or the path of a tokenizer.json
  std::string input = "-";  // a token file (.tok), or numbers between white space; "-": from stdin
};

// `trireme tokenizer check TEXT...`: encodes, decodes and compares every byte.
struct TokenizerCheckOptions {
  std::string tokenizer;  // "byte" or the path of a tokenizer.json
  TextInput input;        // as for train
  int num_threads = 0;    // 0: all cores
};

// Data goes to `out`, progress and remarks to `err`.
Status run_tokenizer_train(const TokenizerTrainOptions& options, std::ostream& out,
                           std::ostream& err);
Status run_tokenizer_encode(const TokenizerEncodeOptions& options, std::ostream& out,
                            std::ostream& err);
Status run_tokenizer_decode(const TokenizerDecodeOptions& options, std::ostream& out,
                            std::ostream& err);
Status run_tokenizer_check(const TokenizerCheckOptions& options, std::ostream& out,
                           std::ostream& err);

}  // namespace trireme
