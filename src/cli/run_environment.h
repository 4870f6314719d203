#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

// What the reports of a run say about this machine and this program.
std::vector<std::pair<std::string, std::string>> run_environment();

}  // namespace trireme
