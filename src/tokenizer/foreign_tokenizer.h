#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/bpe_tokenizer.h"

namespace trireme {

// What the files of other programs leave open (docs/formats/tokenizer.md).
struct ForeignTokenizerOptions {
  std::optional<PreTokenizer> pre_tokenizer;  // of .tiktoken and vocab.json, which do not name it
  std::string end_of_text;                    // a special token's text; "": the usual ones
};

// tokenizer.json of Hugging Face. What would encode differently here is refused (Infeasible).
Result<BpeTokenizer> parse_hugging_face_tokenizer(std::string_view json,
                                                  const ForeignTokenizerOptions& options = {});
// vocab.json and merges.txt (GPT-2's encoder.json and vocab.bpe).
Result<BpeTokenizer> parse_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                            const ForeignTokenizerOptions& options = {});
// Lines of base64 and rank. GPT-2's and Llama-3's are known by their numbers of ranks and get their
// special tokens; others get <|endoftext|> behind the last rank.
Result<BpeTokenizer> parse_tiktoken(std::string_view text,
                                    const ForeignTokenizerOptions& options = {});

// vocab.json, encoder.json, *.tiktoken, tokenizer.model, or a folder with tokenizer files.
bool is_foreign_tokenizer(const std::string& path);
Result<std::unique_ptr<Tokenizer>> load_foreign_tokenizer(
    const std::string& path, const ForeignTokenizerOptions& options = {});

// Writes tokenizer.json, tokenizer_config.json, special_tokens_map.json and, where they say it all,
// vocab.json and merges.txt into a folder that exists. A char tokenizer is refused (Infeasible).
Status write_hugging_face_tokenizer(const Tokenizer& tokenizer, int64_t seq_len,
                                    const std::string& folder);

}  // namespace trireme
