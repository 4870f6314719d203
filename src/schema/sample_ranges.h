#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sample_range.h"

namespace trireme {

// The largest number of ranges that a configuration may leave out.
inline constexpr size_t kMostSampleRanges = 1024;

// Parses run.skip_samples: ranges with their first and last sample, such as "28-31,96-99"; a single
// number is a range of one sample, and "" has no range. A Usage error quotes a wrong range.
Result<std::vector<SampleRange>> parse_sample_ranges(std::string_view text);

}  // namespace trireme
