#pragma once

#include <string>
#include <vector>

#include "spec/run_config.h"

namespace trireme {

// A broken rule, such as "parallel.tp = 3 must divide model.heads = 32; try 1, 2, 4, 8, 16 or 32".
struct ConfigProblem {
  std::string key;
  std::string value;
  std::string rule;
  std::string remedy;

  std::string message() const;
};

// Returns all rules that the configuration itself breaks, in the order of its sections. Rules that
// depend on the data, the machine or the abilities of this version are checked by the plan.
std::vector<ConfigProblem> validate(const RunConfig& config);

}  // namespace trireme
