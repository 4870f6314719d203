#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// Returns the value of the text inside $(( )): integers, variables, + - * / % and parentheses.
// Returns nullopt for anything else, for a division by zero and for numbers above 2^31.
std::optional<int64_t> shell_arithmetic(
    std::string_view text,
    const std::function<std::optional<std::string>(const std::string&)>& variable);

}  // namespace trireme
