#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "interchange/peft_config.h"

// An adapter_config.json: it is refused with a reason, or what we write of it says the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config = trireme::parse_peft_config({reinterpret_cast<const char*>(data), size});
  if (!config.ok()) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  const std::string text = trireme::print_peft_config(*config);
  const auto again = trireme::parse_peft_config(text);
  if (!again.ok()) std::abort();
  if (again->rank != config->rank || again->alpha != config->alpha) std::abort();
  return 0;
}
