#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/run_config_fields.h"
#include "schema/run_config_validate.h"

namespace trireme {

// Checks the fields of a configuration against rules and collects the broken ones.
class ConfigRules {
 public:
  explicit ConfigRules(const RunConfig& config) : fields_(config_fields(config)) {}

  void require(bool holds, std::string_view key, std::string rule, std::string remedy,
               ErrorKind kind = ErrorKind::Usage);
  // `usual` is the value to suggest, if the least value is not useful.
  void at_least(std::string_view key, double value, double least, std::optional<double> usual = {});
  void in_range(std::string_view key, double value, double from, double below,
                std::optional<double> usual = {});
  // Limits sizes so that products of two of them, and of one with bytes, cannot overflow.
  void size(std::string_view key, int64_t value, int64_t least, int64_t most);
  // Degrees that are invalid in themselves are reported only once, by size.
  void divides(std::string_view key, int64_t part, std::string_view whole_key, int64_t whole);
  std::vector<ConfigProblem> take() { return std::move(problems_); }

 private:
  std::string value_of(std::string_view key) const;

  std::vector<ConfigField> fields_;
  std::vector<ConfigProblem> problems_;
};

// Returns text such as "try 1, 2 or 4": the allowed numbers from 1 to `most`. 1 must be allowed.
std::string try_those(int64_t most, const std::function<bool(int64_t)>& is_allowed);
std::string try_divisors_of(int64_t number);

}  // namespace trireme
