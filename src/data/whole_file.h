#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// Returns the bytes of a file, decompressed if its name ends in .gz or .zst. Returns an error with
// its name if it is damaged or has more than `most_bytes` decompressed bytes.
Result<std::vector<uint8_t>> read_whole_file(const std::string& path,
                                             int64_t most_bytes = int64_t{4} << 30);

}  // namespace trireme
