#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json_text.h"
#include "data/json_lines.h"
#include "tokenizer/unicode.h"

// A line of JSON: no input may crash the parser, and another parser must accept what it accepts.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  std::string text = "x";
  int64_t num_replaced = 0;
  const auto status = trireme::append_json_string(line, "text", text, num_replaced);
  if (!status.ok() && text != "x") std::abort();

  trireme::Utf8Check utf8;
  utf8.add(line);
  utf8.finish();
  // The other parser refuses bytes that are not UTF-8, halves of surrogate pairs and huge numbers.
  if (!status.ok() || utf8.num_invalid() > 0 || num_replaced > 0) return 0;
  try {
    const auto object = trireme::parse_json(line);
    if (text != "x" + object.at("text").get<std::string>()) std::abort();
  } catch (const nlohmann::json::out_of_range&) {
  } catch (const nlohmann::json::parse_error& error) {
    // Halves of surrogate pairs in other strings than the text are skipped here and not counted.
    if (std::string_view(error.what()).find("surrogate") == std::string_view::npos) std::abort();
  }
  return 0;
}
