#include "data/synthetic_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace trireme {
namespace {

using Tokens = std::vector<int32_t>;

std::pair<Tokens, Tokens> sample_of(const TokenSource& source, uint64_t sample, int64_t seq_len) {
  Tokens inputs(seq_len), targets(seq_len);
  source.read_sample(sample, inputs, targets);
  return {inputs, targets};
}

TEST(SyntheticSource, TargetsAreInputsOneLaterAndLengthChangesNothing) {
  for (int64_t vocab_size : {1, 2, 27, 256, 50257}) {
    const SyntheticSource source(3, vocab_size);
    const auto [long_inputs, long_targets] = sample_of(source, 11, 64);
    for (int64_t seq_len : {1, 2, 33, 64}) {
      const auto [inputs, targets] = sample_of(source, 11, seq_len);
      for (int64_t t = 0; t < seq_len; ++t) {
        EXPECT_EQ(inputs[t], long_inputs[t]);
        EXPECT_EQ(targets[t], long_targets[t]);
        if (t > 0) {
          EXPECT_EQ(inputs[t], targets[t - 1]);
        }
        EXPECT_GE(targets[t], 0);
        EXPECT_LT(targets[t], vocab_size);
      }
    }
  }
}

TEST(SyntheticSource, SamplesSeedsAndSplitsDiffer) {
  const SyntheticSource source(3, 256), other_seed(4, 256), val(3, 256, "val");
  const auto base = sample_of(source, 0, 32);
  EXPECT_EQ(base, sample_of(SyntheticSource(3, 256), 0, 32));
  EXPECT_NE(base, sample_of(source, 1, 32));
  EXPECT_NE(base, sample_of(other_seed, 0, 32));
  EXPECT_NE(base, sample_of(val, 0, 32));
  EXPECT_EQ(source.entropy_rate(), val.entropy_rate()) << "another chain for validation";
}

// The entropies measured by counting are those of the chain: far below uniform, so there is
// something to learn, and bigrams below unigrams, so attention is useful.
TEST(SyntheticSource, CountedBigramEntropyIsTheEntropyRate) {
  const int64_t vocab_size = 32, seq_len = 256, samples = 4000;
  const SyntheticSource source(9, vocab_size);
  std::map<std::pair<int32_t, int32_t>, double> pairs;
  std::map<int32_t, double> singles;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const auto [inputs, targets] = sample_of(source, sample, seq_len);
    for (int64_t t = 0; t < seq_len; ++t) {
      pairs[{inputs[t], targets[t]}] += 1;
      singles[inputs[t]] += 1;
    }
  }
  const double total = static_cast<double>(samples * seq_len);
  double bigram = 0, unigram = 0;
  for (const auto& [pair, count] : pairs) {
    bigram -= count / total * std::log(count / singles[pair.first]);
  }
  for (const auto& [token, count] : singles) unigram -= count / total * std::log(count / total);
  EXPECT_NEAR(bigram, source.entropy_rate(), 0.01);
  EXPECT_LT(bigram, unigram - 0.5);
  EXPECT_LT(unigram, std::log(static_cast<double>(vocab_size)) - 0.2);
}

}  // namespace
}  // namespace trireme
