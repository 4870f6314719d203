#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "data/chat.h"

// A line with a conversation: no input may crash the parser, its parts are at most as long as the
// line and the template of every message, and the template of no message counts unless its content
// does.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  static const auto chat = trireme::ChatTemplate::parse("<{role}>{content}</>").value();
  const auto parts = trireme::parse_chat(line, chat);
  if (!parts.ok()) return 0;
  size_t bytes = 0;
  bool is_counted = false;
  for (const trireme::ChatPart& part : *parts) {
    if (!part.is_template) bytes += part.text.size();
    if (part.is_template && part.is_counted && !is_counted) std::abort();
    is_counted = part.is_counted;
  }
  if (bytes > line.size()) std::abort();
  return 0;
}
