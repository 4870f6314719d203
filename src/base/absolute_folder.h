#pragma once

#include <string>

namespace trireme {

// Returns "/home/me/out/run" for "out/run/".
std::string absolute_folder(const std::string& path);

}  // namespace trireme
