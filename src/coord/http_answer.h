#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

struct HttpAnswer {
  int status = 0;  // such as 200
  std::string body;
};

// Parses everything that a server has sent until it closed the connection. Refuses a text that is
// not a complete answer.
Result<HttpAnswer> parse_http_answer(std::string_view text);

}  // namespace trireme
