#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Finds texts that become tokens of their own wherever they occur in a longer text. It searches
// from left to right and takes the longest match at each place.
class TextMatches {
 public:
  // `text` is not empty. `strip` says which white space beside a match belongs to it.
  void add(std::string_view text, int32_t token, StrippingToken strip = {});
  bool is_empty() const { return num_texts_ == 0; }

  // Appends the token of each match to `tokens`. Calls append(part), which returns a Status, for
  // each part of the text before, between and after matches that is not empty. As in the tokenizers
  // library, white space that belongs to a match may also contain the next match, whose token is
  // appended, too.
  template <typename Append>
  Status split(std::string_view text, std::vector<int32_t>& tokens, Append&& append) const {
    size_t begin = 0;
    for (size_t place = 0; !is_empty() && place < text.size();) {
      const Match* match = find_at(text.substr(place));
      if (match == nullptr) {
        ++place;
        continue;
      }
      const size_t end = place + match->text.size();
      const size_t first =
          match->strip.lstrip ? std::max(begin, begin_of_space(text, place)) : place;
      if (first > begin) TRIREME_TRY_DONE(append(text.substr(begin, first - begin)));
      tokens.push_back(match->token);
      begin = match->strip.rstrip ? end_of_space(text, end) : end;
      place = end;
    }
    return begin < text.size() ? append(text.substr(begin)) : Status(Done{});
  }

  // Returns true if some match may begin before `position` and end behind it. The text may be the
  // first part of a longer one.
  bool may_cross(std::string_view text, size_t position) const;

 private:
  struct Match {
    std::string text;
    int32_t token = 0;
    StrippingToken strip;
  };
  // The white space that ends at `place`, and that which begins there.
  static size_t begin_of_space(std::string_view text, size_t place);
  static size_t end_of_space(std::string_view text, size_t place);
  // Returns the longest match at the start of `text`, or null.
  const Match* find_at(std::string_view text) const;

  std::array<std::vector<Match>, 256> matches_;  // [first byte], the longest first
  size_t num_texts_ = 0;
  size_t greatest_bytes_ = 0;
};

}  // namespace trireme
