#include "coord/http_post.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>

namespace trireme {
namespace {

constexpr size_t kMostAnswerBytes = size_t{64} << 20;

// Receives until the peer ends the stream.
Result<std::string> receive_to_end(const Socket& socket, Deadline deadline) {
  std::string text;
  std::array<char, 16384> block;
  while (true) {
    const ssize_t got = ::recv(socket.fd(), block.data(), block.size(), 0);
    if (got == 0) return text;
    if (got > 0) {
      text.append(block.data(), size_t(got));
      if (text.size() > kMostAnswerBytes) {
        return damaged(fmt::format("an answer of more than {} bytes", kMostAnswerBytes));
      }
    } else if (errno != EAGAIN && errno != EINTR) {
      return Error{ErrorKind::Runtime, std::strerror(errno)};
    } else if (deadline.left_ms() == 0) {
      return Error{ErrorKind::Runtime, "no answer until the deadline"};
    } else {
      pollfd entry{socket.fd(), POLLIN, 0};
      ::poll(&entry, 1, deadline.left_ms());
    }
  }
}

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

Result<HttpAnswer> http_post(const std::string& address, const std::string& path,
                             std::string_view body, Deadline deadline) {
  const auto in_place = [&](const Error& error) {
    return with_context(error, fmt::format("http://{}{}", address, path));
  };
  Result<Socket> socket = connect_to(address, deadline);
  if (!socket.ok()) return in_place(socket.error());
  const std::string request = fmt::format(
      "POST {} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\n\r\n{}",
      path, address, body.size(), body);
  if (Status sent = send_all(*socket, std::as_bytes(std::span(request)), deadline); !sent.ok()) {
    return in_place(sent.error());
  }
  Result<std::string> text = receive_to_end(*socket, deadline);
  if (!text.ok()) return in_place(text.error());
  Result<HttpAnswer> answer = parse_http_answer(*text);
  return answer.ok() ? std::move(answer) : in_place(answer.error());
}

}  // namespace trireme
