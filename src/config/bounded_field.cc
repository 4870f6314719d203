#include "config/bounded_field.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/nearest_name.h"

namespace trireme {
namespace {

double value_of_number(const FieldValue& value) {
  if (const auto* real = std::get_if<double*>(&value)) return **real;
  if (const auto* integer = std::get_if<int64_t*>(&value)) return double(**integer);
  return 0.0;
}

}  // namespace

BoundedField number_field(std::string_view name, FieldValue value, double least, double most) {
  return {{"", name, "", FieldEffect::Speed, {}, value}, least, most};
}

BoundedField word_field(std::string_view name, std::string* value) {
  return {{"", name, "", FieldEffect::Speed, {}, value}};
}

Status assign_bounded(std::vector<BoundedField> fields, const std::string& name,
                      const ConfigAssignment& assignment) {
  std::vector<std::string> names;
  for (const BoundedField& one : fields) names.emplace_back(one.field.name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    const std::string nearest = nearest_name(name, names);
    return usage(fmt::format("{} is unknown{}", assignment.key,
                             nearest.empty()
                                 ? fmt::format("; the keys are {}", fmt::join(names, ", "))
                                 : "; did you mean " + nearest + "?"));
  }
  const BoundedField& meant = fields[size_t(found - names.begin())];
  TRIREME_TRY_DONE(assign(meant.field, assignment));
  const double value = value_of_number(meant.field.value);
  const bool is_free = meant.most < meant.least;
  if (is_free || (std::isfinite(value) && value >= meant.least && value <= meant.most)) {
    return Done{};
  }
  return usage(fmt::format("{} = {} must be from {:g} to {:g}", assignment.key, assignment.text,
                           meant.least, meant.most));
}

}  // namespace trireme
