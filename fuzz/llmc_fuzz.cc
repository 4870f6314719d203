#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "interchange/llmc_header.h"

// The header of a model of llm.c: it is refused, or its length is valid and writing it again gives
// the same header.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), std::min<size_t>(size, 32));
  if (size >= 32) bytes.resize(trireme::kLlmcHeaderBytes, '\0');
  const auto header = trireme::parse_llmc_model_header(std::as_bytes(std::span(bytes)));
  if (!header.ok()) {
    if (header.error().message.empty()) std::abort();
    return 0;
  }
  if (trireme::llmc_file_bytes(*header) <= trireme::kLlmcHeaderBytes) std::abort();
  if (trireme::print_llmc_model_header(*header) != bytes) std::abort();
  return 0;
}
