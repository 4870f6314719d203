#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace trireme {

// The list that a Python expression such as "([0]*1+[1]*27)" makes: lists of integers, + * and
// parentheses. Returns nullopt for any other text, and for a list of more than `most` elements.
std::optional<std::vector<int64_t>> parse_layer_pattern(std::string_view text, size_t most);

}  // namespace trireme
