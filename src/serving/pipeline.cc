#include "serving/pipeline.h"

#include <algorithm>

namespace trireme {

double LatencyLimits::share(double mean, double p95) const {
  return std::max(mean_s > 0.0 ? mean / mean_s : 0.0, p95_s > 0.0 ? p95 / p95_s : 0.0);
}

std::vector<double> ServedPipeline::rates() const {
  std::vector<double> rates;
  for (const Operator& one : operators) {
    const OperatorInput& input = one.inputs.front();  // those of the others are equal
    const size_t from = size_t(input.index);
    rates.push_back(input.items * (input.is_source ? sources[from].items_per_s : rates[from]));
  }
  return rates;
}

double ServedPipeline::accuracy_of(const ModelChoice& choice) const {
  return most_accuracy(choice);
}

double ServedPipeline::most_accuracy(const ModelChoice& choice) const {
  const auto may_be = [&](const MeasuredCombination& measured) {
    for (size_t i = 0; i < choice.size(); ++i) {
      if (choice[i] >= 0 && choice[i] != measured.choice[i]) return false;
    }
    return true;
  };
  if (rule == AccuracyRule::Measured) {
    double most = -1.0;
    for (const MeasuredCombination& measured : combinations) {
      if (may_be(measured)) most = std::max(most, measured.accuracy);
    }
    return most;
  }
  double product = 1.0, sum = 0.0, weights = 0.0;
  for (size_t i = 0; i < operators.size(); ++i) {
    const Operator& one = operators[i];
    double accuracy = 0.0;
    for (size_t model = 0; model < one.models.size(); ++model) {
      if (choice[i] >= 0 && choice[i] != int(model)) continue;
      accuracy = std::max(accuracy, one.models[model].accuracy);
    }
    product *= accuracy;
    sum += one.weight * accuracy;
    weights += one.weight;
  }
  return rule == AccuracyRule::Product ? product : sum / weights;
}

int64_t ServedPipeline::num_combinations() const {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t count = 1;
  for (const Operator& one : operators) {
    const int64_t models = std::max(int64_t(one.models.size()), int64_t{1});
    count = count > kMost / models ? kMost : count * models;
  }
  return count;
}

double ServedPipeline::input_bytes(const OperatorInput& input, const ModelChoice& choice) const {
  const size_t from = size_t(input.index);
  if (input.is_source) return sources[from].item_bytes;
  return operators[from].models[size_t(choice[from])].output_bytes;
}

std::string ServedPipeline::text_of(const ModelChoice& choice) const {
  std::string text;
  for (size_t i = 0; i < operators.size(); ++i) {
    text +=
        (i > 0 ? ", " : "") + operators[i].name + "=" + operators[i].models[size_t(choice[i])].name;
  }
  return text;
}

}  // namespace trireme
