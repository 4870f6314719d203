#include "cli/prediction_line.h"

#include <fmt/format.h>

#include <cmath>

#include "base/units.h"

namespace trireme {
namespace {

// With less of its time lost to other processes a run counts as undisturbed.
constexpr double kUndisturbed = 0.97;

// The rates behind the prediction were measured on the same machine, and nobody knows how much of
// the cores others had then. So the step without them took between a part and all of the measured
// time, and only what lies outside of this range is a difference.
std::string disturbed(const StepComparison& step) {
  const double least_s = step.measured_s * step.share_left;
  std::string verdict = "as predicted";
  if (least_s > step.predicted_s) {
    verdict = fmt::format("at least {:.1f} % longer than predicted",
                          100.0 * (least_s / step.predicted_s - 1.0));
  } else if (step.measured_s < step.predicted_s) {
    verdict = fmt::format("at least {:.1f} % shorter than predicted",
                          100.0 * (1.0 - step.measured_s / step.predicted_s));
  }
  return fmt::format(
      "; others took {:.0f} % of the cores, so with all of them it would take {} to "
      "{}: {}",
      100.0 * step.taken_by_others, format_seconds(least_s), format_seconds(step.measured_s),
      verdict);
}

}  // namespace

std::string prediction_line(const StepComparison& step) {
  if (step.measured_s * step.share_left <= 0.0 || step.predicted_s <= 0.0) return "";
  const std::string times =
      fmt::format("step       {} predicted, {} measured (median)", format_seconds(step.predicted_s),
                  format_seconds(step.measured_s));
  if (step.share_left <= kUndisturbed) return times + disturbed(step) + "\n";
  const double longer = step.measured_s / step.predicted_s - 1.0;
  return fmt::format("{}: {:.1f} % {} than predicted\n", times, 100.0 * std::abs(longer),
                     longer < 0.0 ? "shorter" : "longer");
}

}  // namespace trireme
