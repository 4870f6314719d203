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

struct HuggingFaceSpelling {
  ExpertSpelling experts = ExpertSpelling::Separate;
  double logit_scale = 1.0;
  // True to list the copies of embedding and head in the modules of DeepSeek-V3. They are written,
  // but not read.
  bool has_copies = false;
};

// The tensors of the family's model in the order of ours.
std::vector<ForeignTensor> hugging_face_tensors(const ModelSpec& model, ForeignFamily family,
                                                const HuggingFaceSpelling& spelling = {});

// Returns a tensor's name as hugging_face_tensors spells it. GPT-2 files of the hub leave out
// "transformer."; wrappers add "module." or "_orig_mod." in front.
std::string canonical_hugging_face_name(std::string_view name, ForeignFamily family);

// True for masks and tables that old versions stored, which follow from the configuration, and for
// layers that predict further tokens, which the library leaves out, too.
bool is_hugging_face_buffer(std::string_view canonical_name, const ModelSpec& model);

}  // namespace trireme
