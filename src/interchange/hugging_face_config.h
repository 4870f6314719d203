#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "interchange/foreign_family.h"
#include "schema/model_spec.h"

namespace trireme {

// A model as described by a Hugging Face config.json (docs/formats/hugging_face.md).
struct HuggingFaceConfig {
  ForeignFamily family = ForeignFamily::Gpt2;
  ModelConfig model;
  double logit_scale = 1.0;            // a factor of all logits
  std::optional<DType> dtype;          // of the weights, if the file names it
  std::optional<int64_t> end_of_text;  // the first eos_token_id
};

// The names that config.json gives to a family.
struct HuggingFaceFamily {
  ForeignFamily family;
  std::string_view type;          // model_type
  std::string_view architecture;  // the class of the library
};
std::span<const HuggingFaceFamily> hugging_face_families();

// Reads the families of foreign_family.h as written by transformers 4 and 5. A model that ours
// cannot represent is Infeasible; a file that cannot be understood is Damaged.
Result<HuggingFaceConfig> parse_hugging_face_config(std::string_view text);

}  // namespace trireme
