#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trireme {

// A pattern of a failure rule: words as a message has them, in small or capital letters. "*" stands
// for any text within a line, and "|" separates alternatives: "no space left|quota*exceeded". The
// time of a search is proportional to the text.
class TextPattern {
 public:
  TextPattern() = default;  // matches nothing
  // Refuses a pattern that would match nearly every text, with the reason.
  static Result<TextPattern> parse(std::string_view text);

  bool empty() const { return alternatives_.empty(); }
  // Returns the first line of the text that matches, or "" if none does.
  std::string_view find_in(std::string_view text) const;

 private:
  bool matches_line(const std::string& line) const;
  std::vector<std::vector<std::string>> alternatives_;  // the words between "*", in small letters
};

}  // namespace trireme
