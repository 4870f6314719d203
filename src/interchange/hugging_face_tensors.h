#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "interchange/foreign_family.h"
#include "interchange/foreign_tensor.h"

namespace trireme {

// How Mixtral's experts are stored: one matrix each, or all experts of a layer in one tensor with
// gates and ups together.
enum class ExpertSpelling { Separate, Fused };
// Exists only in files with fused experts.
inline constexpr const char* kFusedExperts = "model.layers.0.mlp.experts.gate_up_proj";

// The tensors of GPT2LMHeadModel, LlamaForCausalLM and MixtralForCausalLM, in the order of the
// model. The model must have a foreign family.
std::vector<ForeignTensor> hugging_face_tensors(const ModelSpec& model, ForeignFamily family,
                                                ExpertSpelling experts = ExpertSpelling::Separate);

// Returns a tensor's name as hugging_face_tensors spells it. GPT-2 files of the hub leave out
// "transformer."; wrappers add "module." or "_orig_mod." in front.
std::string canonical_hugging_face_name(std::string_view name, ForeignFamily family);

// True for masks and tables that old versions stored. They follow from the configuration.
bool is_hugging_face_buffer(std::string_view canonical_name);

}  // namespace trireme
