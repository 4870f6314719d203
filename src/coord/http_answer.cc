#include "coord/http_answer.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>

namespace trireme {
namespace {

bool is_same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::optional<int64_t> number_of(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  int64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = failed == std::errc{} && end == text.data() + text.size() && number >= 0;
  return is_whole ? std::optional(number) : std::nullopt;
}

}  // namespace

Result<HttpAnswer> parse_http_answer(std::string_view text) {
  const size_t head_end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.") || head_end == std::string_view::npos) {
    return damaged("no whole HTTP answer");
  }
  std::string_view head = text.substr(0, head_end);
  HttpAnswer answer{.body = std::string(text.substr(head_end + 4))};
  const size_t space = std::min(head.find(' '), head.size() - 1);
  const std::optional<int64_t> status = number_of(head.substr(space + 1, 3));
  if (!status || *status < 100) return damaged("an HTTP answer without a status");
  answer.status = int(*status);
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(std::min(line.size() + 2, head.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    if (is_same_word(line.substr(0, colon), "Transfer-Encoding")) {
      return damaged("an HTTP answer in chunks, for which nobody has asked");
    }
    if (!is_same_word(line.substr(0, colon), "Content-Length")) continue;
    if (number_of(line.substr(colon + 1)) != int64_t(answer.body.size())) {
      return damaged("an HTTP answer that was cut off");
    }
  }
  return answer;
}

}  // namespace trireme
