#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

// What the reports of a run say about this machine and this program.
std::vector<std::pair<std::string, std::string>> run_environment();

// The absolute path of this program, and the current folder; "trireme" and "" if they are unknown.
std::string program_path();
std::string current_folder();

}  // namespace trireme
