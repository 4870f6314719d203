#include "session/first_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <vector>

#include "base/units.h"

namespace trireme {
namespace {

constexpr double kNamedPart = 0.05;  // of the step

struct Part {
  const char* name;
  double StepTimes::*seconds;
};
constexpr Part kParts[] = {{"compute", &StepTimes::compute},
                           {"waiting for transfers", &StepTimes::exposed_comm},
                           {"waiting for other stages", &StepTimes::bubble}};

}  // namespace

std::string comparison_of_steps(int64_t num_steps, const StepTimes& predicted,
                                const StepTimes& measured) {
  std::vector<std::string> off;
  for (const Part& part : kParts) {
    const double expected_s = predicted.*part.seconds, spent_s = measured.*part.seconds;
    if (std::abs(spent_s - expected_s) < kNamedPart * measured.step) continue;
    off.push_back(fmt::format("{} took {} and not {}", part.name, format_seconds(spent_s),
                              format_seconds(expected_s)));
  }
  return fmt::format("after {} steps: {} a step predicted, {} measured{}{}", num_steps,
                     format_seconds(predicted.step), format_seconds(measured.step),
                     off.empty() ? "" : ": ", fmt::join(off, ", "));
}

void FirstSteps::on_step(const StepReport&) {
  if (++num_steps_ != kComparedSteps) return;
  tell_(comparison_of_steps(num_steps_, predicted_, meter_.typical_times()));
}

}  // namespace trireme
