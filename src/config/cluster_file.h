#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "schema/hardware.h"

namespace trireme {

// Reads a hardware file: one of clusters/, or the output of `trireme calibrate`. One error names
// every problem with its line.
Result<Hardware> load_hardware(const std::string& path);
Result<Hardware> parse_hardware(std::string_view text, const std::string& source);

}  // namespace trireme
