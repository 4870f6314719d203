#include "config/toml_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

// Walks over a text and counts levels. A dot may also be part of a number; that counts one level
// too many, which no real file reaches.
class TomlMeter {
 public:
  explicit TomlMeter(std::string_view text) : text_(text) {}

  Status check() {
    while (at_ < text_.size()) {
      switch (text_[at_]) {
        case '#':
          at_ = std::min(text_.find('\n', at_), text_.size());
          continue;
        case '"':
        case '\'':
          skip_string(text_[at_]);
          continue;
        case '\n':
          end_line();
          break;
        case '.':
          ++dots_;
          break;
        case '[':
        case '{':
          open();
          break;
        case ']':
        case '}':
          close();
          break;
        case '=':
          is_value_ = true;
          break;
        case ',':
          dots_ = 0;
          break;
        default:
          break;
      }
      if (depth_ + dots_ + header_dots_ > limits::kDepth) return refuse();
      ++at_;
    }
    return Done{};
  }

 private:
  void end_line() {
    ++line_;
    if (!open_dots_.empty()) return;  // inside an array
    if (is_header_) header_dots_ = dots_;
    is_header_ = is_value_ = false;
    dots_ = 0;
  }
  void open() {
    if (!is_value_ && open_dots_.empty()) {  // [a.b.c]
      if (!is_header_) header_dots_ = dots_ = 0;
      is_header_ = true;
      return;
    }
    open_dots_.push_back(dots_);
    depth_ += dots_ + 1;
    dots_ = 0;
  }
  void close() {
    if (open_dots_.empty()) return;
    dots_ = open_dots_.back();
    depth_ -= dots_ + 1;
    open_dots_.pop_back();
  }

  void skip_string(char quote) {
    const std::string_view rest = text_.substr(at_);
    const bool is_block = rest.size() >= 3 && rest[1] == quote && rest[2] == quote;
    at_ += is_block ? 3 : 1;
    const std::string_view end = rest.substr(0, is_block ? 3 : 1);
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n' && !is_block) return;  // not closed; the parser will report it
      if (c == '\n') ++line_;
      if (c == '\\' && quote == '"') {
        ++at_;
      } else if (text_.substr(at_, end.size()) == end) {
        at_ += end.size();
        // A block string may end with up to two quotes of its own.
        for (int k = 0; is_block && k < 2 && at_ < text_.size() && text_[at_] == quote; ++k) ++at_;
        return;
      }
    }
    at_ = text_.size();
  }

  Error refuse() const {
    return usage(fmt::format("{}: nested deeper than {} levels; a key of a configuration has two",
                             line_, limits::kDepth));
  }

  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1;
  int64_t dots_ = 0;         // in the key or number at at_
  int64_t header_dots_ = 0;  // in the open section
  int64_t depth_ = 0;        // of the open arrays and inline tables, with their keys
  std::vector<int64_t> open_dots_;
  bool is_header_ = false;  // the line begins with [
  bool is_value_ = false;   // after the = of its line
};

}  // namespace

Status check_toml_limits(std::string_view text) {
  if (static_cast<int64_t>(text.size()) > limits::kConfigFileBytes) {
    return usage(fmt::format("1: {} bytes; a configuration has at most {}", text.size(),
                             limits::kConfigFileBytes));
  }
  return TomlMeter(text).check();
}

}  // namespace trireme
