#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "schema/model_spec.h"

namespace trireme {

// A model as described by a Hugging Face config.json (docs/formats/hugging_face.md).
struct HuggingFaceConfig {
  ModelConfig model;
  std::optional<DType> dtype;          // of the weights, if the file names it
  std::optional<int64_t> end_of_text;  // the first eos_token_id
};

// Reads GPT-2, Llama and Mixtral as written by transformers 4 and 5. A model that ours cannot
// represent is Infeasible; a file that cannot be understood is Damaged.
Result<HuggingFaceConfig> parse_hugging_face_config(std::string_view text);

}  // namespace trireme
