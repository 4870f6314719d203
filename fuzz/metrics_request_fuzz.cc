#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "observe/metrics_answer.h"

// The input is a request to the metrics server. The server answers when the head is complete, with
// one HTTP response of the stated length that contains no byte of the request.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view request(reinterpret_cast<const char*>(data), size);
  bool asked = false;
  const auto answer = trireme::answer_request(request, [&] {
    asked = true;
    return std::string("trireme_step 1\n");
  });
  if (answer.has_value() != (request.find("\r\n\r\n") != request.npos)) std::abort();
  if (!answer) return 0;
  const size_t head = answer->find("\r\n\r\n");
  if (!answer->starts_with("HTTP/1.1 ") || head == std::string::npos) std::abort();
  const std::string length = "\r\nContent-Length: " + std::to_string(answer->size() - head - 4);
  if (answer->find(length + "\r\n") == std::string::npos) std::abort();
  if (asked != answer->starts_with("HTTP/1.1 200 ")) std::abort();
  if (asked && !request.starts_with("GET /metrics")) std::abort();
  return 0;
}
