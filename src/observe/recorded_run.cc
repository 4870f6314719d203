#include "observe/recorded_run.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bounded_json.h"
#include "base/order_statistics.h"

namespace trireme {
namespace {

using nlohmann::json;

std::optional<double> number_in(const json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

void add_line(const json& line, RecordedRun& run, std::vector<double>& step_seconds) {
  const auto event = line.find("event");
  if (event == line.end() || (*event != "train" && *event != "eval")) return;
  if (const auto epoch = number_in(line, "epoch")) run.epoch = epoch;
  if (*event == "train") {
    run.steps = int64_t(number_in(line, "step").value_or(0.0));
    run.final_loss = number_in(line, "loss").value_or(NAN);
    if (const auto step_s = number_in(line, "step_s")) step_seconds.push_back(*step_s);
    return;
  }
  run.val_loss = number_in(line, "val_loss").value_or(0.0);
  run.bits_per_byte = number_in(line, "bits_per_byte").value_or(0.0);
  run.val_accuracy = number_in(line, "accuracy");
}

}  // namespace

RecordedRun recorded_run(std::string_view metrics) {
  RecordedRun run;
  std::vector<double> step_seconds;
  while (!metrics.empty()) {
    const size_t end = metrics.find('\n');
    if (end == std::string_view::npos) break;  // a crash has cut the last line
    const Result<json> line = parse_bounded_json(std::string(metrics.substr(0, end)));
    metrics.remove_prefix(end + 1);
    if (line.ok() && line->is_object()) add_line(*line, run, step_seconds);
  }
  if (step_seconds.size() > 4) step_seconds.erase(step_seconds.begin(), step_seconds.begin() + 2);
  if (!step_seconds.empty()) run.step_s = upper_median(std::move(step_seconds));
  return run;
}

}  // namespace trireme
