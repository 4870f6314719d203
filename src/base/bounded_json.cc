#include "base/bounded_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

namespace trireme {
namespace {

constexpr size_t kShownBytes = 200;

// Walks over a text and counts what a parser would have to store.
class JsonMeter {
 public:
  JsonMeter(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {
    TRIREME_CHECK(limits.depth < static_cast<int>(members_.size()), "a limit above the table");
  }

  Status check() {
    for (; at_ < text_.size(); ++at_) {
      switch (text_[at_]) {
        case '"':
          skip_string();
          break;
        case '{':
        case '[':
          if (++depth_ > limits_.depth) {
            return refuse("nested deeper than " + std::to_string(limits_.depth) + " levels");
          }
          members_[size_t(depth_)] = 1;
          ++values_;
          begin_token();
          break;
        case '}':
        case ']':
          if (depth_ > 0) --depth_;
          begin_token();
          break;
        case ',':
          ++values_;
          if (++members_[size_t(depth_)] > limits_.members) {
            return refuse("more than " + std::to_string(limits_.members) + " entries of one kind");
          }
          begin_token();
          break;
        case ':':
        case ' ':
        case '\t':
        case '\r':
        case '\n':
          begin_token();
          break;
        default:
          break;
      }
      if (values_ > limits_.values) {
        return refuse("more than " + std::to_string(limits_.values) + " values");
      }
      if (static_cast<int64_t>(at_ - token_) > limits_.token_bytes) {
        return refuse("a string or number of more than " + std::to_string(limits_.token_bytes) +
                      " bytes");
      }
    }
    return Done{};
  }

 private:
  void begin_token() { token_ = at_ + 1; }

  void skip_string() {
    token_ = at_;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
  }

  Error refuse(const std::string& what) const {
    return damaged(what + " (byte " + std::to_string(at_) +
                   "): such files are refused; write the file again, or fetch it again");
  }

  std::string_view text_;
  const JsonLimits& limits_;
  size_t at_ = 0;
  size_t token_ = 0;  // where the string or number at at_ begins
  int depth_ = 0;
  int64_t values_ = 1;
  std::array<int64_t, 2 * limits::kDepth> members_{};  // of the open containers, by depth
};

}  // namespace

Status check_json_limits(std::string_view text, const JsonLimits& limits) {
  return JsonMeter(text, limits).check();
}

Result<nlohmann::json> parse_bounded_json(std::string_view text, const JsonLimits& limits) {
  TRIREME_TRY_DONE(check_json_limits(text, limits));
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& failure) {
    return damaged("not JSON: " + json_problem(failure.what()));
  }
}

std::string json_problem(std::string_view what) {
  // The library's own name of the exception says nothing to a user, and "line 1" is wrong where
  // the text is one line of a file.
  if (what.starts_with("[json.exception."))
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
  constexpr std::string_view kFirstLine = "parse error at line 1, ";
  if (what.starts_with(kFirstLine)) {
    return json_problem(fmt::format("at {}", what.substr(kFirstLine.size())));
  }
  if (what.size() <= kShownBytes) return std::string(what);
  return std::string(what.substr(0, kShownBytes)) + " ...";
}

}  // namespace trireme
