#include "cli/prediction_line.h"

#include <fmt/format.h>

#include <cmath>

#include "base/units.h"

namespace trireme {
namespace {

// With less of its time lost to other processes a run counts as undisturbed.
constexpr double kUndisturbed = 0.97;

}  // namespace

std::string prediction_line(const StepComparison& step) {
  const double compared_s = step.measured_s * step.share_left;
  if (compared_s <= 0.0 || step.predicted_s <= 0.0) return "";
  const double longer = compared_s / step.predicted_s - 1.0;
  const std::string load =
      step.share_left > kUndisturbed
          ? ""
          : fmt::format("; others took {:.0f} % of the cores, so {:.0f} % of this time is compared",
                        100.0 * step.taken_by_others, 100.0 * step.share_left);
  return fmt::format(
      "step       {} predicted, {} measured (median){}: {:.1f} % {} than predicted\n",
      format_seconds(step.predicted_s), format_seconds(step.measured_s), load,
      100.0 * std::abs(longer), longer < 0.0 ? "shorter" : "longer");
}

}  // namespace trireme
