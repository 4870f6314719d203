#include "tokenizer/special_tokens.h"

#include <map>

namespace trireme {

SpecialTokenEncoder::SpecialTokenEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  std::map<int32_t, StrippingToken> stripping;
  for (const StrippingToken strip : tokenizer.stripping_tokens()) stripping[strip.token] = strip;
  for (const int32_t token : tokenizer.special_tokens()) {
    special_.add(tokenizer.piece(token), token, stripping[token]);
  }
  // These are searched for together with special tokens; the longest match counts.
  for (const AddedToken added : tokenizer.added_tokens()) {
    if (added.is_first) special_.add(tokenizer.piece(added.token), added.token);
  }
}

Status SpecialTokenEncoder::append_tokens(std::string_view text, WordCache& cache,
                                          std::vector<int32_t>& tokens) const {
  return special_.split(text, tokens, [&](std::string_view part) {
    return tokenizer_.append_tokens(part, cache, tokens);
  });
}

}  // namespace trireme
