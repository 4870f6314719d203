#include "data/source_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/philox.h"

namespace trireme {
namespace {

// Weights of several mixtures: equal, very unequal, of many sources, and of a single source.
std::vector<std::vector<double>> mixtures() {
  std::vector<std::vector<double>> all = {{1.0},      {1.0, 1.0}, {2.0, 1.0, 1.0},
                                          {1e6, 1.0}, {0.3, 0.7}, {1e-9, 1.0}};
  std::vector<double> many;
  for (uint32_t k = 0; k < 20; ++k) {
    many.push_back(1.0 + philox(RngKey{7}, counter_of(k, 0))[0] % 1000);
  }
  all.push_back(many);
  return all;
}

TEST(SourceOrder, EverySampleOfEverySourceHasOnePlace) {
  for (const auto& weights : mixtures()) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const SourceOrder order(seed, weights);
      std::vector<uint64_t> next(weights.size(), 0);
      for (uint64_t global = 0; global < 1500; ++global) {
        for (size_t source = 0; source < weights.size(); ++source) {
          ASSERT_EQ(order.count(source, global), next[source]);
        }
        const SourceOrder::Place place = order.place_of(global);
        ASSERT_EQ(place.sample, next[place.source]++) << "sample " << global;
      }
    }
  }
}

TEST(SourceOrder, SharesStayWithinTheirBoundHoweverManySamples) {
  for (const auto& weights : mixtures()) {
    const SourceOrder order(5, weights);
    for (const uint64_t samples : {1u, 10u, 1000u, 1'000'003u, 4'000'000'007u}) {
      uint64_t sum = 0;
      for (size_t source = 0; source < weights.size(); ++source) {
        const double expected = double(samples) * order.share(source);
        const uint64_t count = order.count(source, samples);
        EXPECT_LE(std::abs(double(count) - expected),
                  1.0 + double(weights.size()) * order.share(source));
        sum += count;
      }
      EXPECT_EQ(sum, samples);
    }
  }
}

TEST(SourceOrder, OnlyTheRatiosOfWeightsAndTheSeedMatter) {
  const SourceOrder order(1, std::vector{1.0, 2.0, 5.0});
  const SourceOrder scaled(1, std::vector{4.0, 8.0, 20.0});
  const SourceOrder other(2, std::vector{1.0, 2.0, 5.0});
  int differing = 0;
  for (uint64_t global = 0; global < 400; ++global) {
    EXPECT_EQ(order.place_of(global).source, scaled.place_of(global).source);
    differing += order.place_of(global).source != other.place_of(global).source;
  }
  EXPECT_GT(differing, 10);
}

}  // namespace
}  // namespace trireme
