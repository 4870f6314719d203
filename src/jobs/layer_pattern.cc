#include "jobs/layer_pattern.h"

#include <charconv>

namespace trireme {
namespace {

constexpr int kDeepestParenthesis = 16;

using Numbers64 = std::vector<int64_t>;

class LayerPattern {
 public:
  LayerPattern(std::string_view text, size_t most) : left_(text), most_(most) {}

  std::optional<Numbers64> run() {
    Numbers64 list;
    const bool is_whole = sum(list, 0) && next() == '\0';
    if (!is_whole) return std::nullopt;
    return list;
  }

 private:
  char next() {
    while (left_.starts_with(' ')) left_.remove_prefix(1);
    return left_.empty() ? '\0' : left_.front();
  }
  bool take(char wanted) {
    if (next() != wanted) return false;
    left_.remove_prefix(1);
    return true;
  }
  bool number(int64_t& value) {
    next();
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
    if (error != std::errc{} || value < 0) return false;
    left_.remove_prefix(size_t(end - left_.data()));
    return true;
  }

  // list + list + ...
  bool sum(Numbers64& list, int depth) {
    do {
      Numbers64 part;
      if (!product(part, depth) || list.size() + part.size() > most_) return false;
      list.insert(list.end(), part.begin(), part.end());
    } while (take('+'));
    return true;
  }

  // list * times
  bool product(Numbers64& list, int depth) {
    Numbers64 once;
    if (!operand(once, depth)) return false;
    int64_t times = 1;
    if (take('*') && !number(times)) return false;
    if (!once.empty() && uint64_t(times) > most_ / once.size()) return false;
    if (once.empty()) times = 0;
    for (int64_t i = 0; i < times; ++i) list.insert(list.end(), once.begin(), once.end());
    return true;
  }

  // [0, 1] or (sum)
  bool operand(Numbers64& list, int depth) {
    if (take('(')) return depth < kDeepestParenthesis && sum(list, depth + 1) && take(')');
    if (!take('[')) return false;
    do {
      int64_t value = 0;
      if (!number(value) || list.size() == most_) return false;
      list.push_back(value);
    } while (take(','));
    return take(']');
  }

  std::string_view left_;
  size_t most_;
};

}  // namespace

std::optional<std::vector<int64_t>> parse_layer_pattern(std::string_view text, size_t most) {
  return LayerPattern(text, most).run();
}

}  // namespace trireme
