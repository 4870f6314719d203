#include "data/sampler.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/check.h"

namespace trireme {
namespace {

TEST(Sampler, EveryEpochReadsEveryWindowOnce) {
  for (int64_t seq_len : {1, 2, 7, 64}) {
    for (int64_t num_windows : {1, 2, 3, 5, 8, 17, 100, 1000}) {
      const int64_t num_tokens = (num_windows + 1) * seq_len + seq_len / 2;
      const Sampler sampler(42, num_tokens, seq_len);
      ASSERT_EQ(sampler.num_windows(), num_windows);
      for (int64_t epoch : {0, 1, 2}) {
        std::set<int64_t> starts;
        for (int64_t k = 0; k < num_windows; ++k) {
          const int64_t start = sampler.first_token(epoch * num_windows + k);
          EXPECT_GE(start, 0);
          EXPECT_LE(start + seq_len + 1, num_tokens);
          EXPECT_EQ(start % seq_len, *starts.insert(start).first % seq_len);
        }
        ASSERT_EQ(static_cast<int64_t>(starts.size()), num_windows) << "two samples share a window";
        const int64_t offset = *starts.begin();
        EXPECT_LT(offset, seq_len);
        int64_t expected = offset;
        for (int64_t start : starts) {
          EXPECT_EQ(start, expected);
          expected += seq_len;
        }
      }
    }
  }
}

TEST(Sampler, ShortestFilesHaveOneWindow) {
  for (int64_t seq_len : {1, 5, 16}) {
    for (int64_t num_tokens = seq_len + 1; num_tokens <= 3 * seq_len; ++num_tokens) {
      const Sampler sampler(1, num_tokens, seq_len);
      for (uint64_t sample = 0; sample < 50; ++sample) {
        const int64_t start = sampler.first_token(sample);
        EXPECT_GE(start, 0);
        EXPECT_LE(start + seq_len + 1, num_tokens);
      }
    }
  }
  EXPECT_THROW(Sampler(1, 16, 16), ContractError);
}

TEST(Sampler, OrderDependsOnSeedAndEpochAlone) {
  const Sampler a(7, 100000, 32), again(7, 100000, 32), other(8, 100000, 32);
  const uint64_t epoch = static_cast<uint64_t>(a.num_windows());
  int64_t same_seed = 0, same_epoch = 0;
  for (uint64_t sample = 0; sample < epoch; ++sample) {
    EXPECT_EQ(a.first_token(sample), again.first_token(sample));
    same_seed += a.first_token(sample) / 32 == other.first_token(sample) / 32;
    same_epoch += a.first_token(sample) / 32 == a.first_token(sample + epoch) / 32;
  }
  // A fixed point is as likely as in a random permutation: one on average.
  EXPECT_LT(same_seed, 10);
  EXPECT_LT(same_epoch, 10);
}

// Half of the places should hold windows of the first half of the file. The number is
// hypergeometric, with a standard deviation of sqrt(n) / 4.
TEST(Sampler, FirstHalfOfAnEpochIsSpreadOverTheFile) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Sampler sampler(seed, 4097 * 8, 8);
    const int64_t half = sampler.num_windows() / 2;
    int64_t low = 0;
    for (int64_t sample = 0; sample < half; ++sample) {
      low += sampler.first_token(sample) / 8 < half;
    }
    EXPECT_NEAR(static_cast<double>(low), static_cast<double>(half) / 2, 5 * 16) << "seed " << seed;
  }
}

}  // namespace
}  // namespace trireme
