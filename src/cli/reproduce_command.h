#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme reproduce [NAME]` after parsing.
struct ReproduceOptions {
  std::string name;    // a published table; "": all
  bool split = false;  // also print what each predicted step is spent on
  bool json = false;
};

// Prints published tables: measured, predicted and the error, beside two baselines.
Result<int> run_reproduce(const ReproduceOptions& options, CommandIo& io);

}  // namespace trireme
