#pragma once

#include <string_view>
#include <vector>

namespace trireme {

// Patterns for the names of parameters, separated by commas. In a pattern `*` stands for any text,
// also for none ("layers.*.attn.*").

// Returns the patterns without spaces around them; empty ones are left out. They point into the
// argument.
std::vector<std::string_view> split_patterns(std::string_view patterns);
// Returns true if the pattern matches the whole name.
bool matches_pattern(std::string_view pattern, std::string_view name);
// Returns true if one of the patterns, separated by commas, matches the name.
bool matches_any(std::string_view patterns, std::string_view name);
// Returns for each pattern what the rest of a name behind this prefix must match. If two prefixes
// have equal remainders, the patterns match both with the same endings.
std::vector<std::vector<std::string_view>> remainders(std::string_view patterns,
                                                      std::string_view prefix);

}  // namespace trireme
