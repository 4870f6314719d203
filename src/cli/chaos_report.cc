#include "cli/chaos_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/units.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string_view> kind_names(const std::vector<FaultKind>& kinds) {
  std::vector<std::string_view> names;
  for (const FaultKind kind : kinds) names.push_back(name_of(kind));
  return names;
}

std::vector<std::string_view> point_names(const std::vector<CrashPoint>& points) {
  std::vector<std::string_view> names;
  for (const CrashPoint point : points) names.push_back(name_of(point));
  return names;
}

std::string known_share_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.2f} %", 100.0 * *share) : "unknown";
}

std::string fault_lines(const InjectedFault& fault) {
  const std::string recovery = fault.recovery_ms ? format_seconds(1e-3 * *fault.recovery_ms) : "-";
  return fmt::format("  {:>9} {:<10} {:>7} {:>10}  {}\n  {:>40}{}\n", format_seconds(fault.at_s),
                     name_of(fault.kind), fault.step, recovery, fault.target, "", fault.happened);
}

std::string difference_text(const std::string& difference) {
  return difference.empty() ? "equal" : "differ: " + difference;
}

Json difference_json(const std::string& difference) {
  return difference.empty() ? Json(nullptr) : Json(difference);
}

template <typename T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

int64_t ChaosReport::survived() const {
  return std::count_if(faults.begin(), faults.end(), [](const auto& f) { return f.survived; });
}

std::string chaos_text(const ChaosReport& report) {
  std::string text = fmt::format("storm      seed {}, a fault every {} on average: {}\n",
                                 report.plan.seed, format_seconds(report.plan.mtbf_s),
                                 fmt::join(kind_names(report.plan.kinds), ", "));
  if (!report.plan.points.empty()) {
    text += fmt::format("points     {}\n", fmt::join(point_names(report.plan.points), ", "));
  }
  if (!report.faults.empty()) {
    text += fmt::format("  {:>9} {:<10} {:>7} {:>10}  {}\n", "at", "kind", "step", "recovery",
                        "what was hit, and what happened");
  }
  for (const InjectedFault& fault : report.faults) text += fault_lines(fault);
  text +=
      fmt::format("survived   {} of {} faults; the job has counted {} failures and {}\n",
                  report.survived(), report.faults.size(), report.failures,
                  report.has_ended_well ? "ended by itself"
                                        : fmt::format("ended with exit code {}", report.exit_code));
  text += fmt::format("steps      {}, of which {} were done again\n", report.steps,
                      report.redone_steps);
  text += fmt::format("effective  {} of the time, predicted {}\n",
                      known_share_text(report.effective), known_share_text(report.predicted));
  text +=
      fmt::format("losses     {}\nnorms      {}\nweights    {}, and so is the optimizer's state\n",
                  difference_text(report.compared.losses), difference_text(report.compared.norms),
                  difference_text(report.compared.weights));
  if (!report.compared.weights.empty()) {
    text.resize(text.rfind(", and so"));
    text += "\n";
  }
  return text + fmt::format("report     {}/storm/report.html\n", report.folder);
}

std::string chaos_json(const ChaosReport& report) {
  Json faults = Json::array();
  for (const InjectedFault& fault : report.faults) {
    faults.push_back({{"at_s", fault.at_s},
                      {"time", fault.time_s},
                      {"kind", name_of(fault.kind)},
                      {"step", fault.step},
                      {"target", fault.target},
                      {"happened", fault.happened},
                      {"recovery_ms", optional_json(fault.recovery_ms)},
                      {"survived", fault.survived}});
  }
  const Json json = {{"seed", report.plan.seed},
                     {"mtbf_s", report.plan.mtbf_s},
                     {"kinds", kind_names(report.plan.kinds)},
                     {"points", point_names(report.plan.points)},
                     {"faults", faults},
                     {"survived", report.survived()},
                     {"failures", report.failures},
                     {"exit_code", report.exit_code},
                     {"ended_by_itself", report.has_ended_well},
                     {"steps", report.steps},
                     {"step_s", report.step_s},
                     {"redone_steps", report.redone_steps},
                     {"effective", optional_json(report.effective)},
                     {"predicted", optional_json(report.predicted)},
                     {"differences",
                      {{"losses", difference_json(report.compared.losses)},
                       {"norms", difference_json(report.compared.norms)},
                       {"weights", difference_json(report.compared.weights)}}},
                     {"good", report.is_good()}};
  return json_text(json, 2) + "\n";
}

}  // namespace trireme
