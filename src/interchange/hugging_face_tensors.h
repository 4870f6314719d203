#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "interchange/foreign_family.h"
#include "interchange/foreign_tensor.h"

namespace trireme {

// How Mixtral's experts lie: a matrix for each, or those of a layer as one, gates and ups together.
enum class ExpertSpelling { Separate, Fused };
// Is there where they are fused.
inline constexpr const char* kFusedExperts = "model.layers.0.mlp.experts.gate_up_proj";

// The tensors of GPT2LMHeadModel, LlamaForCausalLM and MixtralForCausalLM, in the order of the
// model. The model must have a foreign family.
std::vector<ForeignTensor> hugging_face_tensors(const ModelSpec& model, ForeignFamily family,
                                                ExpertSpelling experts = ExpertSpelling::Separate);

// A tensor's name as hugging_face_tensors has it: the hub's GPT-2 leaves out "transformer.",
// wrappers put "module." or "_orig_mod." in front.
std::string canonical_hugging_face_name(std::string_view name, ForeignFamily family);

// Masks and tables that old versions stored; they follow from the configuration.
bool is_hugging_face_buffer(std::string_view canonical_name);

}  // namespace trireme
