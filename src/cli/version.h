#pragma once

#include <string>
#include <string_view>

namespace trireme {

std::string_view version();       // "0.1.0"
std::string_view build_commit();  // "db3b405", "db3b405-dirty", or "unknown" outside a checkout

// What --version prints: version, commit, compiler, and what this machine runs.
std::string version_text();

}  // namespace trireme
