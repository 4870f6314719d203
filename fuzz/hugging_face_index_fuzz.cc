#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "interchange/hugging_face_index.h"

// model.safetensors.index.json: it is refused with a reason, or names files of its own folder.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto files = trireme::parse_hugging_face_index({reinterpret_cast<const char*>(data), size});
  if (!files.ok()) {
    if (files.error().message.empty()) std::abort();
    return 0;
  }
  if (files->empty()) std::abort();
  for (const std::string& name : *files) {
    if (name.empty() || name == ".." || name.find('/') != std::string::npos) std::abort();
  }
  return 0;
}
