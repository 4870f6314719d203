#include "agent/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/chrome_trace.h"

namespace trireme {
namespace {

constexpr int kMostWithoutProgress = 3;
// Rank 0 reports a step only at its end, so the step of a failure may be off by one.
constexpr int64_t kSameSteps = 1;
constexpr double kWindowS = 3600.0;

// True if the rank failed by its own work. False if it was killed or stopped from outside.
bool is_own(const JobFailure& failure) {
  return failure.kind == "crashed" || failure.kind == "failed";
}

bool is_same(const JobFailure& a, const JobFailure& b) {
  return a.kind == b.kind && a.what == b.what && a.cause == b.cause;
}

}  // namespace

std::string failure_line(const JobFailure& failure, int number) {
  const std::string cause = failure.rank < 0 ? failure.what
                            : failure.cause.empty()
                                ? fmt::format("rank {} has died: it {}", failure.rank, failure.what)
                                : fmt::format("rank {}: {}", failure.rank, failure.cause);
  return fmt::format(
      "{{\"event\":\"failure\",\"step\":{},\"time\":{:.3f},\"cause\":\"{}\",\"class\":\"{}\","
      "\"rank\":{},\"host\":\"{}\",\"epoch\":{},\"detected_ms\":{:.3f},\"evidence\":\"{}\","
      "\"number\":{}}}\n",
      failure.step, failure.time_s, json_escaped(cause), failure.kind, failure.rank,
      json_escaped(failure.host), failure.epoch, failure.detected_after_s * 1e3,
      json_escaped(failure.what), number);
}

std::string RestartPolicy::reason(const JobFailure& failure) const {
  if (max_restarts_ == 0) return "--max-restarts is 0";
  if (failure.exit_code >= 2 && failure.exit_code <= 4) return "a new start cannot cure this";
  if (failure.furthest_step == 0) return "no step was done before it";
  int without_progress = 1;
  for (auto it = failures_.rbegin(); it != failures_.rend(); ++it) {
    const int64_t progress = failure.furthest_step - it->furthest_step;
    if (progress > kSameSteps) break;
    without_progress += int(progress == 0);
    if (is_own(failure) && is_same(*it, failure)) {
      return fmt::format("it has failed twice in the same way after step {}",
                         failure.furthest_step);
    }
  }
  if (without_progress >= kMostWithoutProgress) {
    return fmt::format("{} failures have followed each other without a new step", without_progress);
  }
  const auto in_window = std::count_if(
      failures_.begin(), failures_.end(),
      [&](const JobFailure& other) { return failure.time_s - other.time_s < kWindowS; });
  if (in_window >= max_restarts_) {
    return fmt::format("--max-restarts = {} restarts were made within an hour", max_restarts_);
  }
  return "";
}

std::string RestartPolicy::why_end(const JobFailure& failure) {
  std::string why = reason(failure);
  failures_.push_back(failure);
  return why;
}

}  // namespace trireme
