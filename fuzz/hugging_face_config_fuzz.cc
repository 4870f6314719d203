#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "interchange/hugging_face_config.h"
#include "interchange/print_hugging_face_config.h"

// A config.json: it is refused with a reason, or its model is written and read back unchanged.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config =
      trireme::parse_hugging_face_config({reinterpret_cast<const char*>(data), size});
  if (!config.ok()) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  const auto model = trireme::resolve_model(config->model, 0);
  if (!model.ok()) std::abort();
  const auto text =
      trireme::print_hugging_face_config(*model, {.end_of_text = config->end_of_text});
  if (!text.ok()) std::abort();
  const auto again = trireme::parse_hugging_face_config(*text);
  if (!again.ok()) std::abort();
  const auto text_again = trireme::print_hugging_face_config(
      *trireme::resolve_model(again->model, 0), {.end_of_text = again->end_of_text});
  if (!text_again.ok() || *text_again != *text) std::abort();
  return 0;
}
