#pragma once

#include <memory>
#include <vector>

#include "interchange/foreign_family.h"
#include "interchange/foreign_tensor.h"
#include "interchange/gguf.h"
#include "interchange/interchange_model.h"

namespace trireme {

// The keys that describe a model. Refuses what the family's GGUF cannot say (Infeasible).
Status add_gguf_model(const ModelSpec& model, GgufHeader& header);
Result<ModelConfig> gguf_model_of(const GgufHeader& header);

// The keys of a tokenizer; null or a char tokenizer: that there is none. Tokens up to the model's
// vocabulary that the tokenizer does not have are marked as unused.
Status add_gguf_tokenizer(const Tokenizer* tokenizer, int64_t vocab_size, GgufHeader& header);
// Null where the file says that there is none.
Result<std::unique_ptr<Tokenizer>> gguf_tokenizer_of(const GgufHeader& header);

// The tensors in the order of the model; `rope_freqs.weight` is apart, for it is no parameter.
std::vector<ForeignTensor> gguf_tensors(const ModelSpec& model, ForeignFamily family);
std::vector<float> gguf_rope_freqs(const ModelSpec& model);  // empty: none

}  // namespace trireme
