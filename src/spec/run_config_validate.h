#pragma once

#include <string>
#include <vector>

#include "spec/run_config.h"

namespace trireme {

// One broken rule: "parallel.tp = 3 must divide model.heads = 32; try 1, 2, 4, 8, 16 or 32".
struct ConfigProblem {
  std::string key;
  std::string value;
  std::string rule;
  std::string remedy;

  std::string message() const;
};

// All broken rules that the configuration alone shows, in the order of its sections. What depends
// on the data, the machine or the version's abilities is for the plan to say.
std::vector<ConfigProblem> validate(const RunConfig& config);

}  // namespace trireme
