#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "base/result.h"
#include "data/text_reader.h"

namespace trireme {

// `trireme tokenizer train TEXT...`
struct TokenizerTrainOptions {
  TextInput input;                     // files, folders or "-"; format and field of JSON lines
  std::string kind = "bpe";            // "byte", "char" or "bpe"
  int64_t vocab_size = 50257;          // for bpe: bytes, merges and <|endoftext|>
  int64_t min_pair_count = 2;          // for bpe: pairs with fewer occurrences are not merged
  std::string out = "tokenizer.json";  // output file
  int num_threads = 0;                 // 0: all cores
};

// `trireme tokenizer encode TEXT...`: prints token numbers, one line per document.
struct TokenizerEncodeOptions {
  std::string tokenizer;      // "byte" or the path of a tokenizer.json
  TextInput input = {{"-"}};  // as for train; standard input by default
  bool end_of_text = false;   // prints the end-of-text token after each document
  bool special = false;       // recognises special tokens in the text
  int num_threads = 0;        // 0: all cores
};

// `trireme tokenizer decode FILE`: prints the text, byte for byte.
struct TokenizerDecodeOptions {
  std::string tokenizer;  // "byte" or the path of a tokenizer.json
  // A token file (.tok), or numbers separated by white space; "-": standard input.
  std::string input = "-";
  OpenInput open_input = {};  // opens names such as store://NAME/PATH
};

// `trireme tokenizer check TEXT...`: encodes, decodes and compares every byte.
struct TokenizerCheckOptions {
  std::string tokenizer;  // "byte" or the path of a tokenizer.json
  TextInput input;        // as for train
  int num_threads = 0;    // 0: all cores
};

// Data go to `out`, progress and notes to `err`.
Status run_tokenizer_train(const TokenizerTrainOptions& options, std::ostream& out,
                           std::ostream& err);
Status run_tokenizer_encode(const TokenizerEncodeOptions& options, std::ostream& out,
                            std::ostream& err);
Status run_tokenizer_decode(const TokenizerDecodeOptions& options, std::ostream& out,
                            std::ostream& err);
Status run_tokenizer_check(const TokenizerCheckOptions& options, std::ostream& out,
                           std::ostream& err);

}  // namespace trireme
