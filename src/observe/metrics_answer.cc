#include "observe/metrics_answer.h"

#include <fmt/format.h>

namespace trireme {
namespace {

std::string response(const char* status, std::string_view body, std::string_view type) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, type, body.size(), body);
}

}  // namespace

std::optional<std::string> answer_request(std::string_view request,
                                          const std::function<std::string()>& text) {
  if (request.find("\r\n\r\n") == std::string_view::npos) return std::nullopt;
  const std::string_view line = request.substr(0, request.find("\r\n"));
  if (!line.starts_with("GET ")) {
    return response("405 Method Not Allowed", "only GET\n", "text/plain");
  }
  if (line.starts_with("GET /metrics ") || line.starts_with("GET /metrics?")) {
    return response("200 OK", text(), "text/plain; version=0.0.4; charset=utf-8");
  }
  return response("404 Not Found", "look at /metrics\n", "text/plain");
}

}  // namespace trireme
