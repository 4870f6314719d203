#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "interchange/gguf_metadata.h"
#include "tokenizer/bpe_tokenizer.h"

namespace {

using namespace trireme;

// Takes numbers from the fuzzer's bytes, and zeros after their end.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool done() const { return at_ >= size_; }
  uint64_t byte() { return done() ? 0 : data_[at_++]; }
  uint64_t number() {  // small, or of any size
    const uint64_t low = byte();
    if (low < 200) return low;
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  std::string text() {
    std::string text;
    for (uint64_t count = byte() % 16; count > 0; --count) text += static_cast<char>(byte());
    return text;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

GgufHeader sound_header(bool is_llama) {
  ModelConfig config;
  config.family = is_llama ? ModelFamily::Llama : ModelFamily::Gpt2;
  config.layers = 2;
  config.d_model = 64;
  config.heads = 4;
  config.seq_len = 32;
  const auto model = resolve_model(config, 300);
  GgufHeader header;
  if (!model.ok() || !add_gguf_model(*model, header).ok()) std::abort();
  const auto tokenizer = BpeTokenizer::make({{0, 1}, {2, 3}});
  if (!tokenizer.ok() || !add_gguf_tokenizer(&*tokenizer, 300, header).ok()) std::abort();
  return header;
}

// Changes a value or its type, changes, removes or adds an element, or removes the key.
void damage(GgufHeader& header, Choices& choices) {
  if (header.values.empty()) return;
  auto& [key, value] = header.values[choices.byte() % header.values.size()];
  switch (choices.byte() % 8) {
    case 0:
      key += "x";
      break;
    case 1:
      value = gguf_u32(choices.number());
      break;
    case 2:
      value = gguf_f32(static_cast<double>(choices.number()) / 255.0 - 1.0);
      break;
    case 3:
      value = gguf_string(choices.text());
      break;
    case 4:
      value = gguf_bool(choices.byte() % 2 == 1);
      break;
    default:
      if (auto* texts = std::get_if<std::vector<std::string>>(&value.value)) {
        if (texts->empty()) break;
        (*texts)[choices.number() % texts->size()] = choices.text();
      } else if (auto* numbers = std::get_if<std::vector<int64_t>>(&value.value)) {
        if (numbers->empty()) break;
        (*numbers)[choices.number() % numbers->size()] = static_cast<int64_t>(choices.number());
      } else {
        value = gguf_u32(choices.number());
      }
  }
}

}  // namespace

// The keys of a GGUF file, some of them damaged: they are refused with a reason, or the model
// resolves and the tokenizer encodes and restores any text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Choices choices(data, size);
  GgufHeader header = sound_header(choices.byte() % 2 == 1);
  while (!choices.done()) damage(header, choices);

  const auto model = gguf_model_of(header);
  if (!model.ok() && model.error().message.empty()) std::abort();
  if (model.ok()) {
    const auto resolved = resolve_model(model->config, 0);
    if (!resolved.ok() && resolved.error().message.empty()) std::abort();
  }
  const auto tokenizer = gguf_tokenizer_of(header);
  if (!tokenizer.ok()) {
    if (tokenizer.error().message.empty()) std::abort();
    return 0;
  }
  if (*tokenizer == nullptr) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto tokens = (**tokenizer).encode(text);
  if (!tokens.ok() || (**tokenizer).decode(*tokens) != text) std::abort();
  return 0;
}
