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

// Experts of all layers together; what a file says beyond is not believed.
inline constexpr int64_t kMostForeignExperts = int64_t{1} << 17;

// In both spellings at once. Refuses a model that has no place in either family.
struct HuggingFaceConfigExtras {
  DType dtype = DType::F32;
  std::optional<int64_t> end_of_text;
};
Result<std::string> print_hugging_face_config(const ModelSpec& model,
                                              const HuggingFaceConfigExtras& extras);

// The family as whose model this can be written; Infeasible, with the reason, when there is none.
// Biases of linears and norms, and gains of norms, that the model lacks are no reason.
enum class ForeignFamily { Gpt2, Llama, Mixtral };
Result<ForeignFamily> foreign_family(const ModelSpec& model);

// The family of a model that came from such a file.
ForeignFamily family_of(const ModelConfig& config);

}  // namespace trireme
