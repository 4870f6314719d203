#include "train/left_out_samples.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace trireme {
namespace {

TEST(LeftOutSamples, NoBatchHasOneAndAllOthersFollowAtOnce) {
  std::mt19937 random(1);
  for (int seed = 0; seed < 300; ++seed) {
    std::vector<SampleRange> left_out;
    std::set<int64_t> samples;
    for (uint32_t i = random() % 5; i > 0; --i) {
      const SampleRange range{int64_t(random() % 60), int64_t(random() % 9)};
      leave_out(range, left_out);
      for (int64_t sample = range.first; sample < range.end(); ++sample) samples.insert(sample);
    }
    const int64_t batch = 1 + int64_t(random() % 6);
    const auto has_none = [&](int64_t first) {
      const auto next = samples.lower_bound(first);
      return next == samples.end() || *next >= first + batch;
    };
    for (int64_t first = 0; first < 80; ++first) {
      const auto next = int64_t(next_whole_batch(left_out, uint64_t(first), batch));
      EXPECT_TRUE(has_none(next)) << seed;
      for (int64_t other = first; other < next; ++other) EXPECT_FALSE(has_none(other)) << seed;
      const auto before = std::distance(samples.begin(), samples.lower_bound(first));
      EXPECT_EQ(num_left_out(left_out, uint64_t(first)), before) << seed;
    }
  }
}

TEST(LeftOutSamples, ARangeIsListedOnce) {
  std::vector<SampleRange> left_out;
  for (int i = 0; i < 2; ++i) leave_out({28, 4}, left_out);
  leave_out({28, 0}, left_out);
  EXPECT_EQ(left_out, (std::vector<SampleRange>{{28, 4}}));
}

}  // namespace
}  // namespace trireme
