#include "session/first_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/units.h"

namespace trireme {
namespace {

constexpr double kNamedPart = 0.05;  // of the step
constexpr double kNamedOp = 0.01;    // likewise

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
    // A difference of sums may lie a rounding below zero.
    const double expected_s = std::max(0.0, predicted.*part.seconds);
    const double spent_s = std::max(0.0, measured.*part.seconds);
    if (std::abs(spent_s - expected_s) < kNamedPart * measured.step) continue;
    off.push_back(fmt::format("{} took {} and not {}", part.name, format_seconds(spent_s),
                              format_seconds(expected_s)));
  }
  return fmt::format("after {} steps: {} a step predicted, {} measured{}{}", num_steps,
                     format_seconds(predicted.step), format_seconds(measured.step),
                     off.empty() ? "" : ": ", fmt::join(off, ", "));
}

std::string comparison_of_ops(const OpComparison& ops, double step_s) {
  constexpr size_t kMostNamed = 3;
  struct Off {
    const OpTimes *predicted, *measured;
    double seconds() const {
      return std::abs(total_s(measured->seconds) - total_s(predicted->seconds));
    }
  };
  const std::vector<OpTimes> predicted = sum_of_layers(ops.predicted);
  const std::vector<OpTimes> measured = sum_of_layers(ops.measured);
  std::vector<Off> off;
  for (size_t i = 0; i < measured.size(); ++i) {
    const Off op{&predicted[i], &measured[i]};
    if (op.seconds() >= kNamedOp * step_s) off.push_back(op);
  }
  std::sort(off.begin(), off.end(),
            [](const Off& a, const Off& b) { return a.seconds() > b.seconds(); });
  off.resize(std::min(off.size(), kMostNamed));
  std::vector<std::string> named;
  for (const auto& [price, time] : off) {
    named.push_back(fmt::format("{} {} took {} and not {}", time->unit, time->op,
                                format_seconds(total_s(time->seconds)),
                                format_seconds(total_s(price->seconds))));
  }
  return named.empty() ? "" : fmt::format("ops that were off: {}", fmt::join(named, ", "));
}

void FirstSteps::on_step(const StepReport&) {
  ++num_steps_;
  if (num_steps_ == kUntimedSteps) engine_.time_ops(true);
  if (num_steps_ != kComparedSteps) return;
  engine_.time_ops(false);
  const StepTimes measured = meter_.typical_times();
  tell_(comparison_of_steps(num_steps_, predicted_.times, measured));
  const std::string by_op = comparison_of_ops(ops(), measured.step);
  if (!by_op.empty()) tell_(by_op);
}

OpComparison FirstSteps::ops() const {
  const int64_t timed = std::min(num_steps_, kComparedSteps) - kUntimedSteps;
  if (timed <= 0) return {predicted_.ops, {}};
  return {predicted_.ops, mean_ops(predicted_.ops, engine_.op_seconds(), timed)};
}

}  // namespace trireme
