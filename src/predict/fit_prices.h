#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>

#include "schema/hardware.h"

namespace trireme {

// Errors of predicted times, each the logarithm of predicted / measured.
struct PriceErrors {
  double sum = 0.0, bias = 0.0, most = 0.0;
  double robust = 0.0;  // what a fit makes least: a wild measurement counts little
  int count = 0;

  void add(double predicted_s, double measured_s);
};
// Returns text such as "24 measurements, mean 3.1 %, greatest 9.0 %, bias -1.2 %".
std::string text_of(const PriceErrors& errors);

// A number of the hardware that a fit may change.
struct FreeNumber {
  const char* name;  // as in a hardware file
  double* (*in)(Hardware& hardware);
  double most = std::numeric_limits<double>::infinity();
};

// The errors of one group of measurements, priced for some hardware.
using ErrorsOf = std::function<PriceErrors(const Hardware& hardware)>;

// Returns `start` with the free numbers at which the errors are least. Every group counts the same,
// however many measurements it has; an empty group counts nothing. A number that is 0 stays 0. The
// errors are evaluated at most `max_evaluations` times.
Hardware fit_prices(const Hardware& start, std::span<const FreeNumber> numbers,
                    std::span<const ErrorsOf> groups, int max_evaluations);

}  // namespace trireme
