#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trireme {

// adapter_config.json of Hugging Face's PEFT, as far as LoRA needs it.
struct PeftConfig {
  int64_t rank = 0;
  double alpha = 0.0;                     // an adapter adds alpha / rank times its product
  std::vector<std::string> modules = {};  // written, not read: the tensors say what there is
  // Written where it is not the rank of all: GPT-2's product of q, k and v whose adapters are
  // apart.
  std::string wider_module = {};
  int64_t times_wider = 1;
  bool is_transposed = false;  // matrices of the base model are [in, out] (GPT-2)
};

std::string print_peft_config(const PeftConfig& config);
// Refuses what computes something else than W + alpha / rank B A.
Result<PeftConfig> parse_peft_config(std::string_view text);

}  // namespace trireme
