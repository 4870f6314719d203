#include "reproduce/printed_digits.h"

#include <cmath>

namespace trireme {

double as_printed(double value, int digits, double printed) {
  const double scale = std::pow(10.0, digits);
  // 41.25 is printed 41.3. The small addend keeps 2.675, stored as 2.67499.., a half.
  const double rounded = std::floor(value * scale + 0.5 + 1e-9) / scale;
  const double cut = std::floor(value * scale + 1e-9) / scale;
  return std::abs(rounded - printed) <= std::abs(cut - printed) ? rounded : cut;
}

}  // namespace trireme
