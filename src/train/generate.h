#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/decoder.h"
#include "models/sampling.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Whom generate() calls.
struct GenerateCalls {
  // Every token as it is drawn. Generation ends if it returns false.
  std::function<bool(int32_t token)> emit;
  // A sentence for the user if the context can't hold everything: once if the prompt is cut, and
  // once if the context is full during generation. May be empty.
  std::function<void(const std::string& sentence)> note;
};

// It says what generate() has done and how long this took.
struct GenerateReport {
  int64_t prompt_tokens = 0;   // that the model has read
  int64_t new_tokens = 0;      // that were drawn, without <|endoftext|>
  int64_t decoded_tokens = 0;  // that were drawn after the first one, also <|endoftext|>
  double first_token_s = 0;    // from the call until the first token is drawn: the prompt's time
  double decode_s = 0;         // of decoded_tokens
};

// Continues a prompt, for samples during training and for `trireme generate`. It stops at
// <|endoftext|>, after num_tokens, or if `emit` returns false. A prompt that is longer than the
// context of the model is cut to its last tokens, which fill half of the context. Whenever the
// context is full, its later half begins a new context.
GenerateReport generate(Ctx& ctx, Decoder& decoder, const Tokenizer& tokenizer,
                        TokenSampler& sampler, std::vector<int32_t> prompt, int64_t num_tokens,
                        const GenerateCalls& calls);

}  // namespace trireme
