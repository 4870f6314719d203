#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

constexpr size_t kMostRequestBytes = 8192;  // a longer head is no request for metrics

// The HTTP answer to what a client has sent so far; nullopt while the empty line that ends the head
// of a request is missing. `text` is called for GET /metrics alone.
std::optional<std::string> answer_request(std::string_view request,
                                          const std::function<std::string()>& text);

}  // namespace trireme
