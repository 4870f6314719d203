#include "coord/http_post.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
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

}  // namespace

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
