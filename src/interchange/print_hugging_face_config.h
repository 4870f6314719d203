#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "base/result.h"
#include "spec/model_spec.h"

namespace trireme {

struct HuggingFaceConfigExtras {
  DType dtype = DType::F32;
  std::optional<int64_t> end_of_text;
};

// A config.json in both spellings at once. Refuses a model that has no place in any family.
Result<std::string> print_hugging_face_config(const ModelSpec& model,
                                              const HuggingFaceConfigExtras& extras);

}  // namespace trireme
