#pragma once

#include <cstdint>

#include "base/result.h"
#include "schema/model_spec.h"

namespace trireme {

// Model families of foreign files.
enum class ForeignFamily { Gpt2, Llama, Mixtral };

// Returns the family as which this model can be written; Infeasible with the reason if there is
// none. The family may have biases of linears and norms, and gains of norms, that the model lacks.
Result<ForeignFamily> foreign_family(const ModelSpec& model);

// Resolves the model that a file describes. A Damaged error if its numbers contradict each other.
Result<ModelSpec> resolve_foreign(const ModelConfig& config);

// Returns the family of a model that was read from a foreign file.
ForeignFamily family_of(const ModelConfig& config);

// Limit for the experts of all layers together; a file that claims more is refused.
inline constexpr int64_t kMostForeignExperts = int64_t{1} << 17;

}  // namespace trireme
