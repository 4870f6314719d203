#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The candidate with the least edit distance, or "" where none is near enough to be meant.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace trireme
