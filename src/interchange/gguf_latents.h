#pragma once

#include <string>

#include "interchange/foreign_tensor_list.h"
#include "interchange/gguf_keys.h"
#include "schema/model_spec.h"
#include "schema/run_config.h"

// Latent attention in a GGUF: the architecture deepseek2 of llama.cpp, which never makes keys and
// values. It multiplies queries by the up projection of keys, so that one head of latents serves
// all heads of queries, and the file has this projection transposed, head by head.
namespace trireme {

// Adds the keys of latent attention, its experts and its positions.
void add_latent_keys(const ModelSpec& model, KeyAdder& keys);
// Adds the tensors of one layer's attention; `theirs` and `ours` begin the names.
void add_latent_tensors(ForeignTensorList& list, const ModelSpec& model, const std::string& theirs,
                        const std::string& ours);

// Reads what add_latent_keys adds; `name` is the architecture, and model.d_ff the width of layers
// without experts. Throws KeyError.
void read_latents(const GgufHeader& header, const std::string& name, ModelConfig& model);

}  // namespace trireme
