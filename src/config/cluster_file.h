#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schema/hardware.h"

namespace trireme {

// The names of the files of clusters/, without their ending. Every build has their text.
std::vector<std::string> built_in_clusters();

// Reads a hardware file: one of clusters/, or the output of `trireme calibrate`. Where no such file
// exists, the name of a built-in cluster stands for it. One error names every problem with its
// line.
Result<Hardware> load_hardware(const std::string& name_or_path);
Result<Hardware> parse_hardware(std::string_view text, const std::string& source);

}  // namespace trireme
