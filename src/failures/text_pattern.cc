#include "failures/text_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace trireme {
namespace {

constexpr size_t kFewestLetters = 3;  // of one alternative
constexpr size_t kMostLetters = 400;  // of a pattern

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == text.size()) return parts;
    begin = end + 1;
  }
}

}  // namespace

Result<TextPattern> TextPattern::parse(std::string_view text) {
  if (text.size() > kMostLetters) {
    return usage(fmt::format("has {} letters; {} are enough", text.size(), kMostLetters));
  }
  TextPattern pattern;
  for (const std::string& alternative : split(in_small_letters(text), '|')) {
    std::vector<std::string> words;
    size_t letters = 0;
    for (const std::string& word : split(alternative, '*')) {
      letters += size_t(std::count_if(word.begin(), word.end(),
                                      [](unsigned char c) { return std::isalnum(c) != 0; }));
      if (!word.empty()) words.push_back(word);
    }
    if (letters < kFewestLetters) {
      return usage(fmt::format(
          "\"{}\" would match nearly every failure: write at least {} letters or digits between "
          "\"|\"",
          text, kFewestLetters));
    }
    pattern.alternatives_.push_back(std::move(words));
  }
  return pattern;
}

bool TextPattern::matches_line(const std::string& line) const {
  return std::any_of(alternatives_.begin(), alternatives_.end(), [&](const auto& words) {
    size_t from = 0;
    for (const std::string& word : words) {
      const size_t found = line.find(word, from);
      if (found == std::string::npos) return false;
      from = found + word.size();
    }
    return true;
  });
}

std::string_view TextPattern::find_in(std::string_view text) const {
  if (alternatives_.empty()) return "";
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (matches_line(in_small_letters(line))) return line;
    begin = end + 1;
  }
  return "";
}

}  // namespace trireme
