#include "tokenizer/special_tokens.h"

#include <algorithm>

namespace trireme {

SpecialTokenEncoder::SpecialTokenEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  for (const int32_t token : tokenizer.special_tokens()) {
    const std::string text(tokenizer.piece(token));
    special_[static_cast<uint8_t>(text[0])].push_back({text, token});
  }
  for (std::vector<Special>& list : special_) {
    std::stable_sort(list.begin(), list.end(), [](const Special& a, const Special& b) {
      return a.text.size() > b.text.size();
    });
  }
}

const SpecialTokenEncoder::Special* SpecialTokenEncoder::find_at(std::string_view text) const {
  for (const Special& special : special_[static_cast<uint8_t>(text[0])]) {
    if (text.starts_with(special.text)) return &special;
  }
  return nullptr;
}

Status SpecialTokenEncoder::append_tokens(std::string_view text, WordCache& cache,
                                          std::vector<int32_t>& tokens) const {
  size_t begin = 0;
  for (size_t place = 0; place < text.size();) {
    const Special* special = find_at(text.substr(place));
    if (special == nullptr) {
      ++place;
      continue;
    }
    TRIREME_TRY_DONE(tokenizer_.append_tokens(text.substr(begin, place - begin), cache, tokens));
    tokens.push_back(special->token);
    begin = place += special->text.size();
  }
  return tokenizer_.append_tokens(text.substr(begin), cache, tokens);
}

}  // namespace trireme
