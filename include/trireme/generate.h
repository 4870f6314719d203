#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "trireme/model.h"

namespace trireme::api {

struct GenerateRequest {
  std::string prompt;
  std::int64_t num_tokens = 100;  // upper bound: generation also stops at the end-of-text token
  double temperature = 0.8;       // 0: always take the likeliest token
  std::int64_t top_k = 0;         // draw only from the k likeliest tokens; 0: all
  // Draw only from the likeliest tokens whose probabilities add up to this.
  double top_p = 1.0;
  std::uint64_t seed = 0;  // the same seed gives the same text
  // Called with the bytes of each token as soon as it is drawn. A character may consist of the
  // bytes of several tokens.
  std::function<void(std::string_view)> on_piece;
  // Called with a sentence for the user if the model cannot read everything: once if the prompt is
  // longer than the context of the model, of which it then fills the later half, and once if the
  // context is full during generation.
  std::function<void(const std::string&)> on_note;
};

// Returns the text that follows the prompt, without the prompt.
std::string generate(Model& model, const GenerateRequest& request);

}  // namespace trireme::api
