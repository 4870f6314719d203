#include "observe/failure_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/json_number.h"
#include "base/json_text.h"

namespace trireme {
namespace {

// A process number above those of all ranks.
constexpr ChromeTraceWriter::Track kRecoveries{1'000'000, 0};
constexpr const char* kPhases[] = {"detect", "classify", "epoch", "join", "state", "first_step"};

// Returns the text that a trace shows of a `failure` line.
std::string name_of_failure(const nlohmann::json& line) {
  const int64_t rank = whole_number_or(line, "rank", int64_t{-1});
  return fmt::format("failure {}: {} ({})", whole_number_or(line, "number", int64_t{0}),
                     rank >= 0 ? fmt::format("rank {}", rank) : "no rank known",
                     line.value("class", "unknown")) +
         (line.contains("goes_back_to") ? ", goes back" : "");
}

// Adds the times of a `restart` line.
void add_times(const nlohmann::json& line, FailureTimeline& timeline) {
  const nlohmann::json& ms = line.at("ms");
  timeline.epoch = whole_number<int64_t>(line.at("epoch"));
  timeline.redone_steps = whole_number_or(line, "redone_steps", int64_t{0});
  timeline.begin_ms = -std::max(0.0, ms.at("detect").get<double>());
  timeline.detected_s = line.at("time").get<double>() - 1e-3 * ms.at("first_step").get<double>();
  double end_ms = 0.0;
  for (const char* phase : kPhases) {
    if (phase != kPhases[0]) end_ms = std::max(end_ms, ms.at(phase).get<double>());
    timeline.phases.push_back({phase, end_ms});
  }
}

}  // namespace

std::vector<FailureTimeline> failure_timelines(std::string_view metrics) {
  std::vector<FailureTimeline> all;
  FailureTimeline next;
  size_t begin = 0;
  for (size_t end = metrics.find('\n'); end != std::string::npos; end = metrics.find('\n', begin)) {
    const std::string_view text = metrics.substr(begin, end - begin);
    begin = end + 1;
    const bool is_failure = text.starts_with("{\"event\":\"failure\"");
    const bool is_start =
        text.starts_with("{\"event\":\"restart\"") || text.starts_with("{\"event\":\"run\"");
    if ((!is_failure && !is_start) || !check_json_limits(text).ok()) continue;
    const auto line = parse_json_or_discard(text);
    if (!line.is_object()) continue;
    try {
      if (is_failure) {
        next.name += (next.name.empty() ? "" : ", ") + name_of_failure(line);
        next.cause = line.value("cause", "");
        if (line.contains("goes_back_to")) {
          next.cause += fmt::format("; it goes back to a checkpoint of step {} or earlier: {}",
                                    whole_number<int64_t>(line.at("goes_back_to")),
                                    line.value("why_back", ""));
        }
        continue;
      }
      if (line.contains("epoch")) {
        add_times(line, next);
        all.push_back(next);
      } else {
        all.clear();  // a new start of the run, maybe days later
      }
    } catch (const nlohmann::json::exception&) {
      // A line of another program.
    }
    next = {};
  }
  return all;
}

void write_failures(ChromeTraceWriter& writer, std::span<const FailureTimeline> failures,
                    double origin_s) {
  if (failures.empty()) return;
  writer.name_process(kRecoveries.process, "job, failures survived");
  writer.name_track(kRecoveries, "recoveries");
  for (const FailureTimeline& failure : failures) {
    const double zero_s = failure.detected_s - origin_s;
    const auto seconds = [&](double ms) { return zero_s + 1e-3 * ms; };
    const double end_ms = failure.phases.empty() ? 0.0 : failure.phases.back().end_ms;
    writer.complete(kRecoveries, failure.name, "failure", seconds(failure.begin_ms),
                    seconds(end_ms),
                    fmt::format("\"cause\":\"{}\",\"epoch\":{},\"redone_steps\":{},\"ms\":{:.3f}",
                                json_escaped(failure.cause), failure.epoch, failure.redone_steps,
                                end_ms - failure.begin_ms));
    double begin_ms = failure.begin_ms;
    for (const FailureTimeline::Phase& phase : failure.phases) {
      writer.complete(kRecoveries, phase.name, "recovery", seconds(begin_ms), seconds(phase.end_ms),
                      fmt::format("\"ms\":{:.3f},\"ms_from_detection\":{:.3f}",
                                  phase.end_ms - begin_ms, phase.end_ms));
      begin_ms = phase.end_ms;
    }
  }
}

}  // namespace trireme
