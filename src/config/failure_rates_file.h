#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "goodput/failure_rates.h"

namespace trireme {

// Reads failure rates: the name of built-in ones, such as "llama3", or a file of that format
// (docs/formats/rates.md). One error names every problem with its line.
Result<FailureRates> load_failure_rates(const std::string& name_or_path);
Result<FailureRates> parse_failure_rates(std::string_view text, const std::string& source);

// The names of the built-in rates, those of failures/.
std::vector<std::string> built_in_failure_rates();

}  // namespace trireme
