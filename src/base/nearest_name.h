#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Returns the candidate with the smallest edit distance, or "" if none is similar.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace trireme
