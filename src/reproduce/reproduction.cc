#include "reproduce/reproduction.h"

#include <algorithm>
#include <cmath>

namespace trireme {

ErrorSummary summarize(std::span<const double> errors) {
  ErrorSummary summary;
  for (const double error : errors) {
    summary.mean_abs += std::abs(error);
    summary.max_abs = std::max(summary.max_abs, std::abs(error));
    summary.bias += error;
  }
  const double count = std::max<double>(1.0, double(errors.size()));
  summary.mean_abs /= count;
  summary.bias /= count;
  return summary;
}

ErrorSummary ReproducedRows::errors() const {
  std::vector<double> errors;
  for (const ReproducedRow& row : rows) errors.push_back(row.error());
  return summarize(errors);
}

std::optional<ErrorSummary> ReproducedRows::errors_of(
    std::optional<double> ReproducedRow::*baseline) const {
  std::vector<double> errors;
  for (const ReproducedRow& row : rows) {
    if (row.*baseline) errors.push_back(row.error_of(*(row.*baseline)));
  }
  if (errors.empty()) return std::nullopt;
  return summarize(errors);
}

LayoutRegret regret_of(std::span<const ReproducedRow> rows) {
  const auto least = [&](double ReproducedRow::*value) {
    return std::min_element(
        rows.begin(), rows.end(),
        [value](const ReproducedRow& a, const ReproducedRow& b) { return a.*value < b.*value; });
  };
  const auto chosen = least(&ReproducedRow::predicted);
  const auto best = least(&ReproducedRow::measured);
  return {chosen->row, best->row, chosen->measured / best->measured - 1.0};
}

std::vector<std::string> Reproduction::parts() const {
  std::vector<std::string> names;
  for (const ReproducedRow& row : table.rows) {
    const bool is_known = std::find(names.begin(), names.end(), row.part) != names.end();
    if (!row.part.empty() && !is_known) names.push_back(row.part);
  }
  return names;
}

ReproducedRows Reproduction::part(const std::string& name) const {
  ReproducedRows part = table;
  std::erase_if(part.rows, [&](const ReproducedRow& row) { return row.part != name; });
  return part;
}

}  // namespace trireme
