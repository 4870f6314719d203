#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "comm/tcp/socket.h"
#include "coord/http_answer.h"

namespace trireme {

// Sends one request over a new connection (HTTP/1.0) and returns the answer. Returns an error if no
// answer comes before the deadline. Every error names the address. The deadline does not limit the
// resolution of a host name, so a numeric address is better.
Result<HttpAnswer> http_post(const std::string& address, const std::string& path,
                             std::string_view body, Deadline deadline);

}  // namespace trireme
