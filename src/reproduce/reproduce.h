#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "reproduce/reproduction.h"

namespace trireme {

// Names of the published tables, in the order in which they are printed.
std::vector<std::string> reproduction_names();

// Reproduces a published table. A Usage error suggests the nearest name.
Result<Reproduction> reproduce(std::string_view name);

}  // namespace trireme
