#pragma once

#include <cstdint>
#include <functional>
#include <span>
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
  // Called once when the text is complete. May be empty.
  std::function<void()> end = {};
};

// A prompt and how it is continued.
struct GenerateRequest {
  std::vector<int32_t> prompt;
  SamplingOptions sampling;
  GenerateCalls calls;
};

// It says what generate() has done and how long this took. The time of a call of the decoder for
// several texts counts for each with an equal part.
struct GenerateReport {
  int64_t prompt_tokens = 0;   // that the model has read
  int64_t new_tokens = 0;      // that were drawn, without <|endoftext|>
  int64_t decoded_tokens = 0;  // that were drawn after the first one, also <|endoftext|>
  double first_token_s = 0;    // until the first token is drawn: the prompt's time
  double decode_s = 0;         // of decoded_tokens
};

// Continues prompts, for samples during training and for `trireme generate`: as many at once as the
// decoder has sequences, in their order. A text ends at <|endoftext|>, after num_tokens, or if
// `emit` returns false. A prompt that is longer than the context of the model is cut to its last
// tokens, which fill half of the context. Whenever the context is full, its later half begins a new
// context. Returns a report for each request.
std::vector<GenerateReport> generate(Ctx& ctx, Decoder& decoder, const Tokenizer& tokenizer,
                                     std::vector<GenerateRequest> requests, int64_t num_tokens);

}  // namespace trireme
