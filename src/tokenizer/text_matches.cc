#include "tokenizer/text_matches.h"

#include "base/check.h"
#include "tokenizer/unicode.h"

namespace trireme {

void TextMatches::add(std::string_view text, int32_t token, StrippingToken strip) {
  TRIREME_CHECK(!text.empty(), "token " + std::to_string(token) + " has no text");
  std::vector<Match>& list = matches_[static_cast<uint8_t>(text[0])];
  const auto shorter = std::find_if(list.begin(), list.end(), [&](const Match& other) {
    return other.text.size() < text.size();
  });
  list.insert(shorter, {std::string(text), token, strip});
  ++num_texts_;
  greatest_bytes_ = std::max(greatest_bytes_, text.size());
}

const TextMatches::Match* TextMatches::find_at(std::string_view text) const {
  for (const Match& match : matches_[static_cast<uint8_t>(text[0])]) {
    if (text.starts_with(match.text)) return &match;
  }
  return nullptr;
}

size_t TextMatches::begin_of_space(std::string_view text, size_t place) {
  while (place > 0) {
    size_t begin = place - 1;
    while (begin > 0 && is_continuation(text[begin])) --begin;
    const DecodedChar last = decode_utf8(text.substr(begin));
    const bool ends_here = begin + size_t(last.length) == place;
    if (!ends_here || char_class(last.code_point) != CharClass::Space) break;
    place = begin;
  }
  return place;
}

size_t TextMatches::end_of_space(std::string_view text, size_t place) {
  while (place < text.size()) {
    const DecodedChar next = decode_utf8(text.substr(place));
    if (char_class(next.code_point) != CharClass::Space) break;
    place += size_t(next.length);
  }
  return place;
}

bool TextMatches::may_cross(std::string_view text, size_t position) const {
  const size_t first = position < greatest_bytes_ ? 0 : position - greatest_bytes_ + 1;
  for (size_t place = first; place < position; ++place) {
    const std::string_view rest = text.substr(place);
    for (const Match& match : matches_[static_cast<uint8_t>(rest[0])]) {
      if (place + match.text.size() <= position) break;  // the following ones are not longer
      if (rest.starts_with(std::string_view(match.text).substr(0, rest.size()))) return true;
    }
  }
  return false;
}

}  // namespace trireme
