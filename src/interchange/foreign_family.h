#pragma once

#include <cstdint>

#include "base/result.h"
#include "schema/model_spec.h"

namespace trireme {

// Model families of foreign files. Arcee is a llama with squared ReLU; Cohere is Command R, whose
// attention and MLP read one norm; Deepseek is DeepSeek-MoE; Ernie is ERNIE 4.5 with experts; Qwen3
// norms queries and keys; Mistral has a window.
enum class ForeignFamily {
  Gpt2,
  Llama,
  Arcee,
  Cohere,
  Mixtral,
  Deepseek,
  Ernie,
  Qwen3,
  Qwen3Moe,
  Mistral,
  DeepseekV3
};

// Returns the family as which this model can be written; Infeasible with the reason if there is
// none. The family may have biases of linears and norms, and gains of norms, that the model lacks.
Result<ForeignFamily> foreign_family(const ModelSpec& model);

// Resolves the model that a file describes. A Damaged error if its numbers contradict each other.
Result<ModelSpec> resolve_foreign(const ModelConfig& config);

// Rate of the routers' biases of an imported ERNIE 4.5: no file names it.
inline constexpr double kForeignBalanceRate = 0.001;

// Limit for the experts of all layers together; a file that claims more is refused.
inline constexpr int64_t kMostForeignExperts = int64_t{1} << 17;

}  // namespace trireme
