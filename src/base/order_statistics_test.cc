#include "base/order_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme {
namespace {

TEST(OrderStatistics, AreTheValuesAtTheirPlacesInTheSortedList) {
  std::vector<double> values;
  for (int count = 1; count <= 17; ++count) {
    values.push_back(double(count * 7 % 18));
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(upper_median(values), sorted[size_t(count / 2)]);
    EXPECT_EQ(lower_median(values), sorted[size_t((count - 1) / 2)]);
    EXPECT_EQ(lower_quartile(values), sorted[size_t(count / 4)]);
  }
}

}  // namespace
}  // namespace trireme
