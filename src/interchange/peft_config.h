#pragma once

#include <cstdint>
#include <map>
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
  // Only written: the modules whose matrices have adapters of their own, with the factor by which
  // their rank is larger than that of the others.
  std::map<std::string, int64_t> wider_modules = {};
  bool is_transposed = false;  // matrices of the base model are [in, out] (GPT-2)
};

std::string print_peft_config(const PeftConfig& config);
// Refuses what computes something else than W + alpha / rank B A.
Result<PeftConfig> parse_peft_config(std::string_view text);

}  // namespace trireme
