#include "jobs/shell_arithmetic.h"

#include <cctype>
#include <cstdlib>

#include "jobs/foreign_job.h"

namespace trireme {
namespace {

constexpr int64_t kGreatest = int64_t{1} << 31;
constexpr int kDeepest = 32;

using Variable = std::function<std::optional<std::string>(const std::string&)>;

class Arithmetic {
 public:
  Arithmetic(std::string_view text, const Variable& variable) : text_(text), variable_(variable) {}

  std::optional<int64_t> parse() {
    const int64_t value = sum();
    skip_space();
    if (is_wrong_ || at_ != text_.size()) return std::nullopt;
    return value;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  int64_t checked(int64_t value) {
    is_wrong_ = is_wrong_ || std::abs(value) > kGreatest;
    return is_wrong_ ? 0 : value;
  }

  int64_t sum() {
    int64_t value = product();
    while (!is_wrong_ && (peek() == '+' || peek() == '-')) {
      const char sign = text_[at_++];
      const int64_t other = product();
      value = checked(sign == '+' ? value + other : value - other);
    }
    return value;
  }
  int64_t product() {
    int64_t value = term();
    while (!is_wrong_ && (peek() == '*' || peek() == '/' || peek() == '%')) {
      const char sign = text_[at_++];
      const int64_t other = term();
      if (sign != '*' && other == 0) is_wrong_ = true;
      if (is_wrong_) return 0;
      value = checked(sign == '*' ? value * other : sign == '/' ? value / other : value % other);
    }
    return value;
  }
  int64_t term() {
    if (peek() == '(' && depth_ < kDeepest) {
      ++at_;
      ++depth_;
      const int64_t value = sum();
      --depth_;
      is_wrong_ = is_wrong_ || peek() != ')';
      ++at_;
      return value;
    }
    if (peek() == '$') ++at_;
    const bool is_braced = peek() == '{';
    if (is_braced) ++at_;
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      ++at_;
    }
    std::string word(text_.substr(begin, at_ - begin));
    if (is_braced) {
      is_wrong_ = is_wrong_ || peek() != '}';
      ++at_;
    }
    if (!word.empty() && !std::isdigit(static_cast<unsigned char>(word[0]))) {
      word = variable_(word).value_or("");
    }
    const ForeignValue value = value_of_word(word);
    if (const auto* number = std::get_if<int64_t>(&value)) return checked(*number);
    is_wrong_ = true;
    return 0;
  }

  std::string_view text_;
  const Variable& variable_;
  size_t at_ = 0;
  int depth_ = 0;
  bool is_wrong_ = false;
};

}  // namespace

std::optional<int64_t> shell_arithmetic(std::string_view text, const Variable& variable) {
  return Arithmetic(text, variable).parse();
}

}  // namespace trireme
