#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "interchange/foreign_family.h"
#include "interchange/foreign_tensor.h"
#include "schema/lora_targets.h"

namespace trireme {

// A linear module of a family's layer, whose adapter PEFT stores:
// "model.layers.0.self_attn.q_proj".
struct PeftModule {
  std::string name;
  // Our matrices, whose rows are those of the module: one, or q, k and v of GPT-2, or those that
  // latent attention makes from one input.
  std::vector<std::string> matrices;
  std::vector<LoraTarget> targets;  // [matrix]
  std::vector<int64_t> rows;        // [matrix]
  int64_t columns = 0;
  ForeignTensor tensor;  // the matrices in the base model's files

  int64_t num_rows() const;
  // Returns the index of the matrix to which a row of the file belongs.
  size_t matrix_of_row(int64_t row) const;
  // Returns where the file has the rows of B [num_rows(), rank]: as those of the matrices.
  ForeignTensor tensor_of_b(int64_t rank) const;
  // Returns the name in target_modules: "attn.c_attn" for GPT-2, "q_proj" for other families.
  std::string short_name() const;
  std::string a_name() const { return "base_model.model." + name + ".lora_A.weight"; }
  std::string b_name() const { return "base_model.model." + name + ".lora_B.weight"; }
};

// Returns the modules of a model without adapters, layer by layer. Experts and routers are left
// out.
std::vector<PeftModule> peft_modules(const ModelSpec& base, ForeignFamily family);

}  // namespace trireme
