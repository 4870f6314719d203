#include "cli/text_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <thread>
#include <utility>

#include "base/input_limits.h"
#include "base/nearest_name.h"
#include "base/units.h"
#include "tokenizer/byte_tokenizer.h"

namespace trireme {

Result<TextFormat> parse_text_format(std::string_view name) {
  if (name == "auto") return TextFormat::Auto;
  if (name == "text") return TextFormat::Text;
  if (name == "lines") return TextFormat::Lines;
  if (name == "jsonl") return TextFormat::JsonLines;
  if (name == "chat") return TextFormat::Chat;
  const std::string nearest = nearest_name(name, {"auto", "text", "lines", "jsonl", "chat"});
  return Error{ErrorKind::Usage,
               fmt::format("format '{}' is not auto, text, lines, jsonl or chat{}", name,
                           nearest.empty() ? "" : "; did you mean '" + nearest + "'?")};
}

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& name,
                                                  const OpenInput& open_input) {
  if (name == "byte") return std::unique_ptr<Tokenizer>(std::make_unique<ByteTokenizer>());
  if (name.empty()) {
    return Error{
        ErrorKind::Usage,
        "no tokenizer is named; train one with `trireme tokenizer train`, or use \"byte\""};
  }
  if (!is_url(name)) return load_tokenizer(name);
  TRIREME_TRY(file, open_named(name, open_input));
  TRIREME_TRY(text, file.read_all(limits::kTokenizerFileBytes));
  auto tokenizer = parse_tokenizer(text);
  if (!tokenizer.ok()) return with_context(tokenizer.error(), name);
  return tokenizer;
}

int thread_count(int wanted) {
  if (wanted > 0) return wanted;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

TextProgress::TextProgress(std::string what, std::ostream& err)
    : what_(std::move(what)), err_(err), start_(std::chrono::steady_clock::now()), last_(start_) {}

void TextProgress::operator()(int64_t bytes, int64_t total_bytes) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::seconds(2)) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const std::string of_all = total_bytes < 0 ? "" : " of " + format_bytes(total_bytes);
  err_ << fmt::format("{}: {}{}, {}/s\n", what_, format_bytes(bytes), of_all,
                      format_bytes(static_cast<int64_t>(static_cast<double>(bytes) / seconds)))
       << std::flush;
}

}  // namespace trireme
