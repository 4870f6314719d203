#pragma once

#include <cstdint>

#include "base/result.h"
#include "spec/model_spec.h"

namespace trireme {

// Whose models others' files hold.
enum class ForeignFamily { Gpt2, Llama, Mixtral };

// The family as whose model this can be written; Infeasible, with the reason, when there is none.
// Biases of linears and norms, and gains of norms, that the model lacks are no reason.
Result<ForeignFamily> foreign_family(const ModelSpec& model);

// The model that a file describes; Damaged where its numbers make none.
Result<ModelSpec> resolve_foreign(const ModelConfig& config);

// The family of a model that came from such a file.
ForeignFamily family_of(const ModelConfig& config);

// Experts of all layers together; what a file says beyond is not believed.
inline constexpr int64_t kMostForeignExperts = int64_t{1} << 17;

}  // namespace trireme
