#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "goodput/forecast.h"

namespace trireme {

// The options of `trireme plan` that ask what failures will cost.
struct GoodputOptions {
  std::string failures;        // a file of failure rates, or the name of built-in ones; "": none
  std::optional<double> days;  // that the run lasts
};

std::vector<Option> goodput_options(GoodputOptions& options);
Status check_goodput_options(const GoodputOptions& options);

std::string goodput_text(const GoodputForecast& forecast, std::optional<double> price_per_hour);

}  // namespace trireme
