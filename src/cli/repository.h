#pragma once

#include <filesystem>

namespace trireme {

// Root of this source tree, for tests that read its configurations, models and pages.
inline const std::filesystem::path kRoot =
    std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();

}  // namespace trireme
