#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/bpe_tokenizer.h"

namespace trireme {

// Settings that files of other programs do not contain (docs/formats/tokenizer.md).
struct ForeignTokenizerOptions {
  std::optional<PreTokenizer> pre_tokenizer;  // for .tiktoken and vocab.json
  std::string end_of_text;                    // text of a special token; "": the usual ones
  std::string begin_of_text;                  // text of a special token; "": unknown
};

// Reads a tokenizer.json of Hugging Face. Infeasible if it would encode differently here.
Result<BpeTokenizer> parse_hugging_face_tokenizer(std::string_view json,
                                                  const ForeignTokenizerOptions& options = {});
// Reads our own tokenizer.json, which ignores the options, or the one of Hugging Face.
Result<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view json,
                                                   const ForeignTokenizerOptions& options);
// Reads vocab.json and merges.txt (GPT-2: encoder.json and vocab.bpe). If no token is special,
// options.end_of_text or else <|endoftext|> becomes special, and is added after the last token if
// it is missing.
Result<BpeTokenizer> parse_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                            const ForeignTokenizerOptions& options = {});
// Reads lines of base64 and rank. The files of GPT-2 and Llama 3 are recognised by their number of
// ranks and get their special tokens. Others get <|endoftext|> after the last rank.
Result<BpeTokenizer> parse_tiktoken(std::string_view text,
                                    const ForeignTokenizerOptions& options = {});

// True for vocab.json, encoder.json, *.tiktoken, tokenizer.model, or a folder with tokenizer files.
bool is_foreign_tokenizer(const std::string& path);
Result<std::unique_ptr<Tokenizer>> load_foreign_tokenizer(
    const std::string& path, const ForeignTokenizerOptions& options = {});

// Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json into an existing folder,
// and vocab.json and merges.txt if these describe the tokenizer completely. A char tokenizer is
// refused (Infeasible).
Status write_hugging_face_tokenizer(const Tokenizer& tokenizer, int64_t seq_len,
                                    const std::string& folder);

}  // namespace trireme
