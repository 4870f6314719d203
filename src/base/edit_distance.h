#pragma once

#include <cstddef>
#include <string_view>

namespace trireme {

// Returns the number of edits that turn a into b: insert, delete, replace, or swap two neighbours.
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace trireme
