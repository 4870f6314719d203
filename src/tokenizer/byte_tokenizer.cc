#include "tokenizer/byte_tokenizer.h"

#include <array>

#include "base/check.h"
#include "base/hash.h"
#include "tokenizer/tokenizer_json.h"

namespace trireme {
namespace {

constexpr std::array<char, 256> kBytes = [] {
  std::array<char, 256> bytes{};
  for (int byte = 0; byte < 256; ++byte) bytes[byte] = static_cast<char>(byte);
  return bytes;
}();

}  // namespace

Status ByteTokenizer::append_tokens(std::string_view text, WordCache&,
                                    std::vector<int32_t>& tokens) const {
  const size_t begin = tokens.size();
  tokens.resize(begin + text.size());
  for (size_t k = 0; k < text.size(); ++k) tokens[begin + k] = static_cast<uint8_t>(text[k]);
  return Done{};
}

std::string_view ByteTokenizer::piece(int32_t token) const {
  TRIREME_CHECK(token >= 0 && token < vocab_size(), "token " + std::to_string(token));
  return token == end_of_text() ? kEndOfText : std::string_view(&kBytes[token], 1);
}

uint64_t ByteTokenizer::hash() const { return hash64("byte"); }

std::string ByteTokenizer::to_json() const { return print_tokenizer_json(*this, ""); }

}  // namespace trireme
