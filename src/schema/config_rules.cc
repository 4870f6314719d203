#include "schema/config_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/or_list.h"

namespace trireme {

std::string try_those(int64_t most, const std::function<bool(int64_t)>& is_allowed) {
  std::vector<std::string> allowed;
  for (int64_t number = 1; number <= most && number <= 1024; ++number) {
    if (is_allowed(number)) allowed.push_back(std::to_string(number));
  }
  return "try " + or_list(allowed);
}

std::string try_divisors_of(int64_t number) {
  return try_those(number, [number](int64_t d) { return number % d == 0; });
}

void ConfigRules::require(bool holds, std::string_view key, std::string rule, std::string remedy,
                          ErrorKind kind) {
  if (!holds) {
    problems_.push_back(
        {std::string(key), value_of(key), std::move(rule), std::move(remedy), kind});
  }
}

void ConfigRules::at_least(std::string_view key, double value, double least,
                           std::optional<double> usual) {
  require(value >= least && std::isfinite(value), key,
          fmt::format("must be {}at least {}", std::isfinite(value) ? "" : "finite and ", least),
          fmt::format("try {}", usual.value_or(least)));
}

void ConfigRules::in_range(std::string_view key, double value, double from, double below,
                           std::optional<double> usual) {
  require(value >= from && value < below, key,
          fmt::format("must be at least {} and below {}", from, below),
          fmt::format("try {}", usual.value_or(from)));
}

void ConfigRules::size(std::string_view key, int64_t value, int64_t least, int64_t most) {
  require(value >= least && value <= most, key,
          fmt::format("must be at least {} and at most {}", least, most),
          fmt::format("try {}", value < least ? least : most));
}

void ConfigRules::divides(std::string_view key, int64_t part, std::string_view whole_key,
                          int64_t whole) {
  if (part < 1 || whole < 1) return;
  require(whole % part == 0, key, fmt::format("must divide {} = {}", whole_key, whole),
          try_divisors_of(whole));
}

std::string ConfigRules::value_of(std::string_view key) const {
  for (const ConfigField& field : fields_) {
    if (field.key() == key) return toml_text(field);
  }
  return "";
}

}  // namespace trireme
