#pragma once

#include <memory>
#include <vector>

#include "interchange/foreign_family.h"
#include "interchange/foreign_tensor.h"
#include "interchange/gguf.h"
#include "interchange/interchange_model.h"

namespace trireme {

// A model as the keys of a file describe it.
struct GgufModel {
  ForeignFamily family = ForeignFamily::Gpt2;
  ModelConfig config;
  double logit_scale = 1.0;  // a factor of all logits
};

// Adds the keys that describe a model. Infeasible if the family's GGUF cannot describe it.
Status add_gguf_model(const ModelSpec& model, GgufHeader& header);
Result<GgufModel> gguf_model_of(const GgufHeader& header);

// Adds the keys of a tokenizer. For null or a char tokenizer they say that there is none. Tokens of
// the model's vocabulary that the tokenizer lacks are marked as unused.
Status add_gguf_tokenizer(const Tokenizer* tokenizer, int64_t vocab_size, GgufHeader& header);
// Returns null if the file says that there is no tokenizer.
Result<std::unique_ptr<Tokenizer>> gguf_tokenizer_of(const GgufHeader& header);

// The tensors in the order of the model. `rope_freqs.weight` is separate, because it is not a
// parameter.
std::vector<ForeignTensor> gguf_tensors(const ModelSpec& model, ForeignFamily family,
                                        double logit_scale = 1.0);
std::vector<float> gguf_rope_freqs(const ModelSpec& model);  // empty if there are none

}  // namespace trireme
