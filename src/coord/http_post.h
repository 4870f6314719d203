#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "comm/tcp/socket.h"

namespace trireme {

struct HttpAnswer {
  int status = 0;  // such as 200
  std::string body;
};

// Sends one request over a connection of its own (HTTP/1.0) and returns the answer. An error names
// the address, also if nobody answers until the deadline. A name in the address is resolved without
// a deadline, so a number is better.
Result<HttpAnswer> http_post(const std::string& address, const std::string& path,
                             std::string_view body, Deadline deadline);

// Refuses what is no whole answer.
Result<HttpAnswer> parse_http_answer(std::string_view text);

}  // namespace trireme
