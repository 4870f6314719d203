#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tokenizer/foreign_tokenizer.h"

namespace {

// The tokenizer is refused with a reason, or it restores texts, and our own file gives the same
// tokenizer.
void check(const trireme::Result<trireme::BpeTokenizer>& tokenizer, std::string_view text) {
  if (!tokenizer.ok()) {
    if (tokenizer.error().message.empty()) std::abort();
    return;
  }
  const auto tokens = tokenizer->encode(text);
  if (!tokens.ok() || tokenizer->decode(*tokens) != text) std::abort();
  const auto again = trireme::parse_tokenizer(tokenizer->to_json());
  if (!again.ok() || (*again)->hash() != tokenizer->hash()) std::abort();
}

}  // namespace

// The first byte chooses the format. merges.txt follows the first zero byte.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t border = std::min(input.find('\0'), input.size());
  const std::string_view rest = input.substr(std::min(border + 1, input.size()));
  const auto pre_tokenizer =
      data[0] & 4 ? trireme::PreTokenizer::Gpt2 : trireme::PreTokenizer::Llama3;
  switch (data[0] % 4) {
    case 0:
      check(trireme::parse_tiktoken(input, {.pre_tokenizer = pre_tokenizer}), input);
      break;
    case 1:
      check(trireme::parse_vocab_and_merges(input.substr(0, border), rest), input);
      break;
    default:
      check(trireme::parse_hugging_face_tokenizer(input), input);
  }
  return 0;
}
