#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "graph/param_table.h"
#include "models/stage_fixture.h"

namespace trireme {

// Central differences of the loss of the whole stage, along the gradient of each parameter and for
// its largest and one other element. Losses carry about seven digits, which bounds the step.
class FiniteDifferences {
 public:
  explicit FiniteDifferences(TestStage& stage) : stage_(stage) {
    stage_.forward();
    stage_.backward();
  }

  // Compares <gradient, direction> with the slope of the loss along the direction.
  void check(const std::string& param, const std::vector<float>& direction, double step) {
    const std::vector<float> grad = stage_.grad(param);
    double slope = 0.0, largest = 0.0, length = 0.0;
    for (size_t i = 0; i < grad.size(); ++i) {
      slope += double(grad[i]) * double(direction[i]);
      largest += double(grad[i]) * double(grad[i]);
      length += double(direction[i]) * double(direction[i]);
    }
    const double measured =
        (loss_at(param, direction, step) - loss_at(param, direction, -step)) / (2.0 * step);
    EXPECT_NEAR(measured, slope, 4e-3 * std::sqrt(largest * length) + 1e-3) << param;
  }

 private:
  double loss_at(const std::string& param, const std::vector<float>& direction, double step) {
    float* values = stage_.params().at(param).as<float>();
    const std::vector<float> kept(values, values + direction.size());
    for (size_t i = 0; i < kept.size(); ++i) values[i] += float(step) * direction[i];
    const double loss = stage_.forward();
    std::copy(kept.begin(), kept.end(), values);
    return loss;
  }

  TestStage& stage_;
};

// Checks every parameter of the model that a gradient trains.
inline void expect_gradients_are_slopes(TestStage& stage, const ModelSpec& model,
                                        double step = 5e-3) {
  FiniteDifferences differences(stage);
  for (const ParamSpec& param : param_table(model, whole_model(model))) {
    if (!param.is_trained || param.balance_rate > 0.0 || param.running_rate > 0.0) {
      continue;  // its gradient is missing, a count or a statistic
    }
    std::vector<float> direction = stage.grad(param.name);
    const auto largest = std::max_element(direction.begin(), direction.end(), [](float a, float b) {
      return std::abs(a) < std::abs(b);
    });
    const size_t elements[] = {size_t(largest - direction.begin()), direction.size() / 3};
    double norm = 0.0;
    for (const float d : direction) norm += double(d) * d;
    // A key's bias moves nothing: its gradient is rounding, and no direction.
    const bool vanishes = param.name.ends_with("attn.bk");
    for (float& d : direction) d = vanishes ? 1.0f : d / float(std::sqrt(norm));
    differences.check(param.name, direction, step);
    for (const size_t i : elements) {
      std::vector<float> one(direction.size(), 0.0f);
      one[i] = 1.0f;
      differences.check(param.name, one, step);
    }
  }
}

}  // namespace trireme
