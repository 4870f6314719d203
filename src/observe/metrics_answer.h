#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

constexpr size_t kMostRequestBytes = 8192;  // requests with a longer head are refused

// Returns the HTTP answer to the bytes that a client has sent so far, or nullopt while the empty
// line that ends the request's head is missing. `text` is called only for GET /metrics.
std::optional<std::string> answer_request(std::string_view request,
                                          const std::function<std::string()>& text);

}  // namespace trireme
