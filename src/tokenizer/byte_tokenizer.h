#pragma once

#include "tokenizer/tokenizer.h"

namespace trireme {

// Token k is the byte k; 256 is <|endoftext|>.
class ByteTokenizer : public Tokenizer {
 public:
  std::string_view kind() const override { return "byte"; }
  int64_t vocab_size() const override { return 257; }
  Status append_tokens(std::string_view text, WordCache& cache,
                       std::vector<int32_t>& tokens) const override;
  std::string_view piece(int32_t token) const override;
  size_t last_split(std::string_view text) const override { return text.size(); }
  uint64_t hash() const override;
  std::string to_json() const override;
};

}  // namespace trireme
