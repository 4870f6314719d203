#include "tokenizer/char_tokenizer.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/unicode.h"

namespace trireme {
namespace {

constexpr uint32_t kNumSymbols = kInvalidByte + 256;

bool is_symbol(uint32_t symbol) {
  const bool is_surrogate = symbol >= 0xD800 && symbol <= 0xDFFF;
  return symbol < kNumSymbols && !is_surrogate &&
         (symbol < kInvalidByte || symbol >= kInvalidByte + 0x80);
}

std::string bytes_of(uint32_t symbol) {
  if (symbol >= kInvalidByte) return {static_cast<char>(symbol - kInvalidByte)};
  std::string bytes;
  append_utf8(symbol, bytes);
  return bytes;
}

Error unknown_character(uint32_t symbol, std::string_view rest) {
  const std::string name =
      symbol >= kInvalidByte
          ? fmt::format("the byte 0x{:02X}, which is not UTF-8,", symbol - kInvalidByte)
          : fmt::format("the character U+{:04X}", symbol);
  return {ErrorKind::Usage, name + " (before \"" + std::string(rest.substr(0, 20)) +
                                "\") is not in the alphabet of the char tokenizer; train it on "
                                "this text, or use a byte or bpe tokenizer"};
}

}  // namespace

Result<CharTokenizer> CharTokenizer::make(std::vector<uint32_t> alphabet) {
  for (size_t k = 0; k < alphabet.size(); ++k) {
    const bool increases = k == 0 || alphabet[k] > alphabet[k - 1];
    if (is_symbol(alphabet[k]) && increases) continue;
    return Error{ErrorKind::Damaged,
                 fmt::format("alphabet[{}] is {}: {}", k, alphabet[k],
                             increases ? "not a character" : "not above the one before it")};
  }
  CharTokenizer tokenizer;
  for (uint32_t symbol : alphabet) {
    tokenizer.token_of_[symbol] = static_cast<int32_t>(tokenizer.pieces_.size());
    tokenizer.pieces_.push_back(bytes_of(symbol));
  }
  tokenizer.alphabet_ = std::move(alphabet);
  return tokenizer;
}

Status CharTokenizer::append_tokens(std::string_view text, WordCache&,
                                    std::vector<int32_t>& tokens) const {
  while (!text.empty()) {
    const DecodedChar next = decode_utf8(text);
    const auto known = token_of_.find(next.code_point);
    text.remove_prefix(next.length);
    if (known == token_of_.end()) return unknown_character(next.code_point, text);
    tokens.push_back(known->second);
  }
  return Done{};
}

std::string_view CharTokenizer::piece(int32_t token) const {
  TRIREME_CHECK(token >= 0 && token < vocab_size(), "token " + std::to_string(token));
  return token == end_of_text() ? kEndOfText : std::string_view(pieces_[token]);
}

// Cuts before the last byte that starts a character, because that character may be incomplete.
size_t last_char_split(std::string_view text) {
  size_t split = text.size();
  while (split > 0 && (static_cast<uint8_t>(text[split - 1]) & 0xC0) == 0x80) --split;
  return split == 0 ? 0 : split - 1;
}

uint64_t CharTokenizer::hash() const {
  return hash64(std::as_bytes(std::span(alphabet_)), hash64("char"));
}

std::string CharTokenizer::to_json() const {
  return print_tokenizer_json(*this,
                              fmt::format("  \"alphabet\": [{}],\n", fmt::join(alphabet_, ", ")));
}

CharTrainer::CharTrainer() : met_(kNumSymbols) {}

void CharTrainer::add(std::string_view text) {
  while (!text.empty()) {
    const DecodedChar next = decode_utf8(text);
    met_[next.code_point] = true;
    text.remove_prefix(next.length);
  }
}

CharTokenizer CharTrainer::train() const {
  std::vector<uint32_t> alphabet;
  for (uint32_t symbol = 0; symbol < kNumSymbols; ++symbol) {
    if (met_[symbol]) alphabet.push_back(symbol);
  }
  return std::move(CharTokenizer::make(std::move(alphabet))).value();
}

}  // namespace trireme
