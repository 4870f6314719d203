#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace trireme {

// Reads numbers between commas, one for each stage or place of a pipeline: "3,5". An empty text has
// none. A usage error unless all are at least `least`.
Result<std::vector<int>> parse_stage_counts(std::string_view text, int least = 1);

}  // namespace trireme
