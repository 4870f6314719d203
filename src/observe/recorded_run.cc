#include "observe/recorded_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bounded_json.h"
#include "base/order_statistics.h"

namespace trireme {
namespace {

using nlohmann::json;

double number_in(const json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>() : 0.0;
}

void add_line(const json& line, RecordedRun& run, std::vector<double>& step_seconds) {
  const std::string event = line.value("event", "");
  if (event != "train" && event != "eval") return;
  if (line.contains("epoch")) run.epoch = number_in(line, "epoch");
  if (event == "train") {
    run.steps = int64_t(number_in(line, "step"));
    run.final_loss = number_in(line, "loss");
    step_seconds.push_back(number_in(line, "step_s"));
    return;
  }
  run.val_loss = number_in(line, "val_loss");
  run.bits_per_byte = number_in(line, "bits_per_byte");
  if (line.contains("accuracy")) run.val_accuracy = number_in(line, "accuracy");
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
