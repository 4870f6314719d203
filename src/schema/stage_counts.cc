#include "schema/stage_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace trireme {
namespace {

constexpr int kMostCount = 1 << 20;

std::string_view trimmed_word(std::string_view word) {
  while (word.starts_with(' ')) word.remove_prefix(1);
  while (word.ends_with(' ')) word.remove_suffix(1);
  return word;
}

}  // namespace

Result<std::vector<int>> parse_stage_counts(std::string_view text, int least) {
  std::vector<int> counts;
  if (trimmed_word(text).empty()) return counts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = trimmed_word(text.substr(begin, end - begin));
    int count = 0;
    const auto [behind, error] = std::from_chars(word.data(), word.data() + word.size(), count);
    const bool is_number = error == std::errc() && behind == word.data() + word.size();
    if (!is_number || count < least || count > kMostCount) {
      return usage(
          fmt::format("has \"{}\", which is no number between {} and {}", word, least, kMostCount));
    }
    counts.push_back(count);
    begin = end + 1;
  }
  return counts;
}

}  // namespace trireme
