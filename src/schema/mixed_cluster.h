#pragma once

#include <string>
#include <vector>

#include "schema/hardware.h"

namespace trireme {

// Says why the ranks of the devices of a mixed cluster cannot be those of their tables: ranges that
// overlap or do not fill whole nodes, and nodes that a border of an outer tier would cut.
void check_device_ranks(const Hardware& hardware, std::vector<std::string>& problems);

}  // namespace trireme
