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
// Returns what the patterns still ask of a name that begins with the prefix. If two prefixes have
// the same remainder, the same endings make them match.
std::vector<std::vector<std::string_view>> remainders(std::string_view patterns,
                                                      std::string_view prefix);

}  // namespace trireme
