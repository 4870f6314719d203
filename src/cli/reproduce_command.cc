#include "cli/reproduce_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "base/json_text.h"
#include "cli/reproduce_alpa.h"
#include "cli/reproduction_json.h"
#include "reproduce/reproduce.h"

namespace trireme {
namespace {

std::string percent(double share) { return fmt::format("{:+.1f}%", 100.0 * share); }

std::string percent(const ReproducedRow& row, const std::optional<double>& value) {
  return value ? percent(row.error_of(*value)) : "";
}

// Width of the first column below this title.
size_t label_width(const std::string& title, const std::vector<ReproducedRow>& rows) {
  size_t width = title.size();
  for (const ReproducedRow& row : rows) width = std::max(width, row.row.size());
  return width;
}

std::string error_line(const std::string& name, const ErrorSummary& errors) {
  return fmt::format("  {:<34} mean {:5.1f}%   greatest {:5.1f}%   bias {:>7}\n", name,
                     100.0 * errors.mean_abs, 100.0 * errors.max_abs, percent(errors.bias));
}

bool has_baselines(const ReproducedRows& table) {
  return table.errors_of(&ReproducedRow::constant).has_value();
}

std::string rows_text(const ReproducedRows& table) {
  const std::string title = table.quantity + (table.unit.empty() ? "" : ", " + table.unit);
  const size_t width = label_width(title, table.rows);
  std::string text =
      fmt::format("  {:<{}} {:>10} {:>10} {:>8}", title, width, "measured", "predicted", "error");
  if (has_baselines(table)) text += fmt::format(" {:>9} {:>9}", "constant", "roofline");
  text += "\n";
  for (const ReproducedRow& row : table.rows) {
    text += fmt::format("  {:<{}} {:>10.{}f} {:>10.{}f} {:>8}", row.row, width, row.measured,
                        table.digits, row.predicted, table.digits, percent(row.error()));
    if (has_baselines(table)) {
      text += fmt::format(" {:>9} {:>9}", percent(row, row.constant), percent(row, row.roofline));
    }
    text += "\n";
  }
  return text;
}

// What each predicted step is spent on.
std::string split_text(const ReproducedRows& table) {
  const std::string title = "seconds of the slowest rank";
  const size_t width = label_width(title, table.rows);
  std::string text = fmt::format("\n  {:<{}} {:>9} {:>9}", title, width, "step", "compute");
  for (const std::string_view axis : kTrafficAxes) text += fmt::format(" {:>8}", axis);
  text += fmt::format(" {:>9}\n", "bubble");
  for (const ReproducedRow& row : table.rows) {
    if (!row.time) continue;
    text += fmt::format("  {:<{}} {:>9.3f} {:>9.3f}", row.row, width, row.time->step,
                        row.time->compute);
    for (const double exposed_s : row.time->exposed) text += fmt::format(" {:>8.3f}", exposed_s);
    text += fmt::format(" {:>9.3f}\n", row.time->bubble);
  }
  return text;
}

std::string errors_text(const Reproduction& result) {
  std::string text = "\n" + error_line("predicted", result.table.errors());
  for (const std::string& name : result.parts()) {
    const ReproducedRows part = result.part(name);
    text += error_line("  " + name, part.errors());
    if (!result.compares_layouts) continue;
    const LayoutRegret regret = regret_of(part.rows);
    text += fmt::format("    we would choose {}, measured {} against the best, {}\n", regret.chosen,
                        percent(regret.regret), regret.best);
  }
  if (const auto errors = result.table.errors_of(&ReproducedRow::constant)) {
    const std::string rate = fmt::format("constant, {:.0f} TFLOP/s", result.constant_flops / 1e12);
    text += error_line(rate, *errors);
  }
  if (const auto errors = result.table.errors_of(&ReproducedRow::roofline)) {
    text += error_line("roofline", *errors);
  }
  if (!result.memory.rows.empty()) {
    text += error_line(result.memory.quantity, result.memory.errors());
  }
  return text;
}

std::string reproduction_text(const Reproduction& result, bool split) {
  std::string text =
      fmt::format("{}: {}\n\n{}", result.name, result.source, rows_text(result.table));
  const std::vector<ReproducedRow>& rows = result.table.rows;
  const bool has_times =
      std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.time.has_value(); });
  if (split && has_times) text += split_text(result.table);
  if (!result.memory.rows.empty()) text += "\n" + rows_text(result.memory);
  text += errors_text(result);
  for (const std::string& note : result.notes) text += "  * " + note + "\n";
  return text;
}

}  // namespace

Result<int> run_reproduce(const ReproduceOptions& options, CommandIo& io) {
  if (options.name == kAlpaSuite) return run_reproduce_alpa(options.json, io);
  const std::vector<std::string> names =
      options.name.empty() ? reproduction_names() : std::vector<std::string>{options.name};
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& name : names) {
    TRIREME_TRY(result, reproduce(name));
    if (options.json) {
      all.push_back(reproduction_json(result));
      continue;
    }
    io.out << (name == names.front() ? "" : "\n") << reproduction_text(result, options.split);
  }
  if (options.json) io.out << json_text((options.name.empty() ? all : all.front()), 2) << "\n";
  return 0;
}

}  // namespace trireme
