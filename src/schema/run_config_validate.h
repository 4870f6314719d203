#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "schema/run_config.h"

namespace trireme {

// A broken rule, such as "parallel.tp = 3 must divide model.heads = 32; try 1, 2, 4, 8, 16 or 32".
struct ConfigProblem {
  std::string key;
  std::string value;
  std::string rule;
  std::string remedy;
  // Usage, which refuses the file, or Infeasible, which refuses a plan: the file may still say
  // which model a checkpoint holds.
  ErrorKind kind = ErrorKind::Usage;

  std::string message() const;
};

// All rules of a configuration stand behind these two functions, which train, plan, search and
// library call: what they accept has a plan, and is refused after them only for the memory that it
// needs, for a file that cannot be read, or for what this machine lacks (run.isa, run.backend).
//
// All broken rules that the configuration alone shows, in the order of its sections.
std::vector<ConfigProblem> validate(const RunConfig& config);

// The same for a run whose data has a vocabulary of that many tokens, 0 if there is none: holds
// model.vocab_size against the data, and against the vocabulary what follows from it.
std::vector<ConfigProblem> validate_with_data(const RunConfig& config, int64_t data_vocab_size);

}  // namespace trireme
