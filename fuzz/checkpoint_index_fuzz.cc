#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/hash.h"
#include "checkpoint/check_coverage.h"
#include "checkpoint/checkpoint_index.h"

namespace {

// A fuzzer cannot guess the checksum, so half of the inputs get a correct one.
std::string sealed(const std::string& text) {
  const std::string key = ",\n\"checksum\":\"";
  const std::string body = text.substr(0, text.rfind(key));
  return body + key + trireme::hex64(trireme::hash64(body)) + "\"}\n";
}

}  // namespace

// The index of a checkpoint: it is refused, or it describes every tensor exactly once, and printing
// and parsing it again gives the same text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto index = trireme::parse_index(data[0] % 2 == 0 ? sealed(text) : text);
  if (!index.ok()) {
    if (index.error().message.empty()) std::abort();
  } else {
    if (!trireme::check_coverage(index->contents).ok()) std::abort();
    const std::string printed = trireme::print_index(*index);
    const auto again = trireme::parse_index(printed);
    if (!again.ok() || trireme::print_index(*again) != printed) std::abort();
  }
  const auto part = trireme::parse_index_part(text);
  if (part.ok() && !trireme::parse_index_part(trireme::print_index_part(*part)).ok()) std::abort();
  return 0;
}
