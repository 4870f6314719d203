#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "data/foreign_token_file.h"

// A token file of another program: it is refused, or its tokens fill it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto layout = trireme::parse_foreign_tokens(bytes, static_cast<int64_t>(size));
  if (!layout.ok()) {
    if (layout.error().message.empty()) std::abort();
    return 0;
  }
  if (layout->num_tokens < 1) std::abort();
  const int64_t end = layout->data_offset + layout->num_tokens * layout->token_bytes;
  if (end != static_cast<int64_t>(size)) std::abort();
  return 0;
}
