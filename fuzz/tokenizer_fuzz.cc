#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace {

void check_round_trip(const trireme::Tokenizer& tokenizer, std::string_view text) {
  const auto tokens = tokenizer.encode(text);
  if (tokens.ok() && tokenizer.decode(*tokens) != text) std::abort();
  if (!tokens.ok() && tokenizer.kind() != "char") std::abort();
  // Encodes in two parts, cut where the tokenizer allows it.
  const size_t split = tokenizer.last_split(text);
  if (!tokens.ok() || split == 0) return;
  const auto first = tokenizer.encode(text.substr(0, split));
  const auto second = tokenizer.encode(text.substr(split));
  if (!first.ok() || !second.ok()) std::abort();
  std::vector<int32_t> both = *first;
  both.insert(both.end(), second->begin(), second->end());
  if (both != *tokens) std::abort();
}

}  // namespace

// A tokenizer.json, a zero byte and a text: damaged tokenizers are refused, and any other restores
// the text. So does a tokenizer trained on the text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t border = std::min(input.find('\0'), input.size());
  const std::string_view text = input.substr(std::min(border + 1, input.size()));
  const auto tokenizer = trireme::parse_tokenizer(input.substr(0, border));
  if (tokenizer.ok()) check_round_trip(**tokenizer, text);

  trireme::WordCounts words;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t bytes = trireme::first_word_bytes(rest);
    if (bytes == 0 || bytes > rest.size()) std::abort();
    words.add(rest.substr(0, bytes), 1);
    rest.remove_prefix(bytes);
  }
  const auto trained = trireme::train_bpe(words, {.vocab_size = 300});
  if (!trained.ok()) std::abort();
  check_round_trip(*trained, text);
  const auto again = trireme::parse_tokenizer(trained->to_json());
  if (!again.ok() || (*again)->hash() != trained->hash()) std::abort();
  return 0;
}
