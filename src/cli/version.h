#pragma once

#include <string>
#include <string_view>

namespace trireme {

std::string_view version();  // such as "0.1.0"
// Such as "db3b405" or "db3b405-dirty"; "unknown" outside a checkout.
std::string_view build_commit();

// The text of --version: version, commit, compiler, and the kernels and features available on this
// machine.
std::string version_text();

}  // namespace trireme
