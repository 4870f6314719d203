#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "spec/model_spec.h"

namespace trireme {

// What a Hugging Face config.json says of a model (docs/formats/hugging_face.md).
struct HuggingFaceConfig {
  ModelConfig model;
  std::optional<DType> dtype;          // of the weights, where it says
  std::optional<int64_t> end_of_text;  // the first eos_token_id
};

// Reads GPT-2, Llama and Mixtral in the spellings of transformers 4 and 5. What our models cannot
// do is refused (Infeasible), what cannot be understood is damaged.
Result<HuggingFaceConfig> parse_hugging_face_config(std::string_view text);

}  // namespace trireme
