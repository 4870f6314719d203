// Reads .tiktoken files: a line of base64 and rank for every token.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tokenizer/foreign_vocabulary.h"

namespace trireme {
namespace {

Error damaged_line(int64_t line, const std::string& what) {
  return {ErrorKind::Damaged, fmt::format("line {}: {}", line, what)};
}

int value_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// RFC 4648 with padding. Returns nullopt if the text is not base64.
std::optional<std::string> decode_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int value = i + padding >= text.size() ? 0 : value_of(text[i]);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if (i % 4 != 3) continue;
    for (int shift : {16, 8, 0}) bytes += static_cast<char>(bits >> shift & 0xFF);
    bits = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

constexpr size_t kGpt2Ranks = 50256;
constexpr size_t kLlama3Ranks = 128000;

std::vector<std::string> llama3_special() {
  std::vector<std::string> special = {"<|begin_of_text|>", "<|end_of_text|>"};
  int reserved = 0;
  const auto reserve = [&] {
    special.push_back(fmt::format("<|reserved_special_token_{}|>", reserved++));
  };
  while (reserved < 4) reserve();
  special.insert(special.end(), {"<|start_header_id|>", "<|end_header_id|>"});
  reserve();
  special.push_back("<|eot_id|>");
  while (special.size() < 256) reserve();
  return special;
}

Result<std::vector<std::string>> read_ranks(std::string_view text) {
  std::vector<std::string> tokens;
  for (int64_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view digits = line.substr(std::min(space + 1, line.size()));
    size_t rank = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    const bool is_number = error == std::errc() && end == digits.data() + digits.size();
    if (!is_number) return damaged_line(number, "not base64, a space and a rank");
    if (rank != tokens.size())
      return damaged_line(number, fmt::format("rank {} where {} is next", rank, tokens.size()));
    const auto bytes = decode_base64(line.substr(0, space));
    if (!bytes) return damaged_line(number, "not base64");
    tokens.push_back(*bytes);
  }
  return tokens;
}

}  // namespace

Result<BpeTokenizer> parse_tiktoken(std::string_view text, const ForeignTokenizerOptions& options) {
  TRIREME_TRY(tokens, read_ranks(text));
  const bool is_llama3 = tokens.size() == kLlama3Ranks;
  if (!options.pre_tokenizer && !is_llama3 && tokens.size() != kGpt2Ranks) {
    return Error{
        ErrorKind::Usage,
        fmt::format(
            "{} ranks are neither GPT-2's nor Llama-3's, and the file does not say how a text is "
            "split: choose --pre-tokenizer gpt2 or llama3",
            tokens.size())};
  }
  BpeVocabulary vocabulary{.merges_by_rank = true,
                           .whole_words = true,
                           .pre_tokenizer = options.pre_tokenizer.value_or(
                               is_llama3 ? PreTokenizer::Llama3 : PreTokenizer::Gpt2)};
  std::map<int64_t, std::string> special;
  const std::vector<std::string> names =
      is_llama3 ? llama3_special() : std::vector<std::string>{std::string(kEndOfText)};
  vocabulary.tokens = std::move(tokens);
  for (const std::string& name : names) {
    const auto number = static_cast<int32_t>(vocabulary.tokens.size());
    special[number] = name;
    vocabulary.special.push_back(number);
    vocabulary.tokens.push_back(name);
  }
  TRIREME_TRY(end_of_text, find_end_of_text(special, options.end_of_text));
  vocabulary.end_of_text = end_of_text;
  return BpeTokenizer::make(std::move(vocabulary));
}

}  // namespace trireme
