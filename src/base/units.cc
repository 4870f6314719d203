#include "base/units.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace trireme {

std::string format_bytes(int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (std::abs(value) >= 1024.0 && unit < 5) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string format_count(double count) {
  const char* const units[] = {"", "k", "M", "B", "T"};
  int unit = 0;
  while (std::abs(count) >= 1000.0 && unit < 4) {
    count /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.1f}{}", count, units[unit]);
}

std::string format_duration(double seconds) {
  if (!(seconds >= 0.0)) return "?";
  if (seconds < 60.0) return fmt::format("{:.1f}s", seconds);
  const int64_t whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d {:02}h", whole / 86400, whole / 3600 % 24);
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1.0) return fmt::format("{:.1f} ms", seconds * 1e3);
  return seconds < 60.0 ? fmt::format("{:.2f} s", seconds) : format_duration(seconds);
}

std::string format_rate(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.2f}M", per_second / 1e6);
  if (per_second >= 1e3) return fmt::format("{:.2f}k", per_second / 1e3);
  return fmt::format("{:.1f}", per_second);
}

std::string format_fixed(double value, int digits) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}f}", value, digits);
}

}  // namespace trireme
