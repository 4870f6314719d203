#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "base/result.h"
#include "schema/model_spec.h"

namespace trireme {

struct HuggingFaceConfigExtras {
  DType dtype = DType::F32;
  std::optional<int64_t> end_of_text;
};

// Returns a config.json that transformers 4 and 5 both read. An error if no family can represent
// the model.
Result<std::string> print_hugging_face_config(const ModelSpec& model,
                                              const HuggingFaceConfigExtras& extras);

}  // namespace trireme
