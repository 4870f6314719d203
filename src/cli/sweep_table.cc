#include "cli/sweep_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "cli/progress_line.h"
#include "sweep/repeat_command.h"

namespace trireme {
namespace {

using Row = std::vector<std::string>;

std::string loss_text(const std::optional<double>& loss) {
  return loss ? format_fixed(*loss, 4) : "-";
}

// Columns as wide as their widest cell; the last `num_right` are aligned to the right.
std::string aligned(const std::vector<Row>& rows, size_t num_right) {
  std::vector<int> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap(size_t(widths[i] - display_width(row[i])), ' ');
      const bool is_right = i + num_right >= row.size();
      line += (i == 0 ? "" : "  ") + (is_right ? gap + row[i] : row[i] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string rate_text(const std::optional<double>& lr, const char* unknown) {
  return lr ? fmt::format("{:.2g}", *lr) : unknown;
}

std::string finding_text(const SweepRecord& record) {
  const LrFinding& finding = record.finding;
  const std::optional<double> lr = finding.suggested_lr();
  std::string text = fmt::format(
      "steepest descent  {}\ndiverged          {}\nsuggested lr      {}\n",
      rate_text(finding.steepest_lr,
                "nowhere: the smoothed loss falls no more than its noise; test other rates"),
      finding.diverged_lr
          ? fmt::format("{:.2g}, of which a tenth is {:.2g}", *finding.diverged_lr,
                        *finding.diverged_lr / 10.0)
          : fmt::format("nowhere: the test ends at {}", number_text(record.spec.lr_range->to)),
      lr ? fmt::format(
               "{:.2g}{}", *lr,
               finding.steepest_lr && finding.diverged_lr ? ", the lower one of the two" : "")
         : "none");
  if (lr) text += fmt::format("train with it     {}\n", repeat_command(record, 0));
  return text;
}

}  // namespace

std::string trial_text(const SweepSpec& spec, const SweepTrial& trial, size_t index) {
  std::string text;
  for (size_t i = 0; i < spec.keys.size(); ++i) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", spec.keys[i].key, trial.point[i]);
  }
  return text.empty() ? trial_name(index) : fmt::format("{} ({})", trial_name(index), text);
}

std::string end_text(const SweepTrial& trial) {
  if (!trial.reason.empty()) return fmt::format("{}: {}", name_of(trial.state), trial.reason);
  if (trial.val_loss) {
    return fmt::format("{}, validation loss {}", name_of(trial.state), loss_text(trial.val_loss));
  }
  return fmt::format("{}, training loss {}", name_of(trial.state), loss_text(trial.loss));
}

std::string sweep_text(const SweepRecord& record) {
  if (record.spec.lr_range) return finding_text(record);
  const std::optional<size_t> best = record.best();
  std::vector<Row> rows = {{"trial"}};
  for (const SweptKey& key : record.spec.keys) rows.front().push_back(key.key);
  for (const char* head : {"state", "steps", "loss", "val_loss"}) rows.front().emplace_back(head);
  for (const size_t index : record.ranking()) {
    const SweepTrial& trial = record.trials[index];
    Row row = {trial_name(index)};
    row.insert(row.end(), trial.point.begin(), trial.point.end());
    row.push_back(best == index ? "best" : std::string(name_of(trial.state)));
    row.push_back(std::to_string(trial.steps));
    row.push_back(loss_text(trial.loss));
    row.push_back(loss_text(trial.val_loss));
    rows.push_back(std::move(row));
  }
  std::string text = aligned(rows, 3);
  if (best) text += fmt::format("best: {}\n", repeat_command(record, *best));
  return text;
}

}  // namespace trireme
