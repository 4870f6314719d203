#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// A number without an exponent: with four digits, or whole if it has more of them.
inline std::string plain_number(double number) {
  return number >= 1e4 ? fmt::format("{:.0f}", number) : fmt::format("{:.4g}", number);
}

// "1 step", "2 steps"
inline std::string format_counted(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace trireme
