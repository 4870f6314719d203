#pragma once

#include <string>

#include "base/dtype.h"
#include "base/result.h"
#include "interchange/interchange_model.h"

namespace trireme {

// Adapters in the format of Hugging Face's PEFT: a folder with adapter_config.json and
// adapter_model.safetensors, without the weights of the base model.

inline constexpr const char* kPeftConfigFile = "adapter_config.json";
inline constexpr const char* kPeftWeightsFile = "adapter_model.safetensors";

// Writes the adapters of the model, which must have some.
Status write_peft_adapters(const InterchangeModel& model, const std::string& folder, DType dtype);

// Reads such a folder onto a model without adapters. Every layer must have the same ones.
Result<InterchangeModel> read_peft_adapters(InterchangeModel base, const std::string& folder);

}  // namespace trireme
