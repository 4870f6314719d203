#include "base/order_statistics.h"

#include <algorithm>
#include <cstddef>

namespace trireme {
namespace {

double sorted_value(std::vector<double>& values, size_t index) {
  const auto place = values.begin() + std::ptrdiff_t(index);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace

double upper_median(std::vector<double> values) { return sorted_value(values, values.size() / 2); }

double lower_median(std::vector<double> values) {
  return sorted_value(values, (values.size() - 1) / 2);
}

double lower_quartile(std::vector<double> values) {
  return sorted_value(values, values.size() / 4);
}

}  // namespace trireme
