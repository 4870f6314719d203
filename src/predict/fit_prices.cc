#include "predict/fit_prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "predict/least_of.h"

namespace trireme {

void PriceErrors::add(double predicted_s, double measured_s) {
  const double error = std::log(predicted_s / measured_s);
  sum += std::abs(error);
  bias += error;
  most = std::max(most, std::abs(error));
  // Quadratic up to a tenth and linear beyond.
  robust += std::sqrt(1.0 + error * error * 100.0) - 1.0;
  ++count;
}

std::string text_of(const PriceErrors& errors) {
  const double percent = errors.count == 0 ? 0.0 : 100.0 / errors.count;
  return fmt::format("{:>4} measurements, mean {:4.1f} %, greatest {:4.1f} %, bias {:+5.1f} %",
                     errors.count, percent * errors.sum, 100.0 * errors.most,
                     percent * errors.bias);
}

Hardware fit_prices(const Hardware& start, std::span<const FreeNumber> numbers,
                    std::span<const ErrorsOf> groups, int max_evaluations) {
  const auto with = [&](const std::vector<double>& factors) {
    Hardware hardware = start;
    for (size_t i = 0; i < factors.size(); ++i) {
      double& number = *numbers[i].in(hardware);
      number = std::min(number * std::abs(factors[i]), numbers[i].most);
    }
    return hardware;
  };
  const auto loss = [&](const std::vector<double>& factors) {
    const Hardware hardware = with(factors);
    double sum = 0.0;
    for (const ErrorsOf& errors_of_group : groups) {
      const PriceErrors errors = errors_of_group(hardware);
      if (errors.count > 0) sum += errors.robust / errors.count;
    }
    return sum;
  };
  return with(least_of(loss, std::vector<double>(numbers.size(), 1.0), max_evaluations));
}

}  // namespace trireme
