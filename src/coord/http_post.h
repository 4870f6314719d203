#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "comm/tcp/socket.h"
#include "coord/http_answer.h"

namespace trireme {

// Sends one request over a connection of its own (HTTP/1.0) and returns the answer. An error names
// the address, also if nobody answers until the deadline. A name in the address is resolved without
// a deadline, so a number is better.
Result<HttpAnswer> http_post(const std::string& address, const std::string& path,
                             std::string_view body, Deadline deadline);

}  // namespace trireme
