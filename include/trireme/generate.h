#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "trireme/model.h"

namespace trireme::api {

struct GenerateRequest {
  std::string prompt;
  std::int64_t num_tokens = 100;  // at most: the end of a text ends it
  double temperature = 0.8;       // 0: always the likeliest token
  std::int64_t top_k = 0;         // only the k likeliest; 0: all
  double top_p = 1.0;             // only the likeliest that together have this probability
  std::uint64_t seed = 0;         // the same seed gives the same text
  // Called with the bytes of every token as it is drawn; a character may need several.
  std::function<void(std::string_view)> on_piece;
};

// What follows the prompt, without it.
std::string generate(Model& model, const GenerateRequest& request);

}  // namespace trireme::api
