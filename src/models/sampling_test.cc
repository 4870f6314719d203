#include "models/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace trireme {
namespace {

// The likeliest are those that the tokenizer has no text for.
TEST(TokenSampler, DrawsNoTokenBeyondTheVocabulary) {
  std::vector<float> logits(40, 0.0f);
  for (size_t token = 20; token < logits.size(); ++token) logits[token] = 9.0f;
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = 0.0}, SamplingOptions{}, SamplingOptions{.top_k = 30},
        SamplingOptions{.top_p = 0.5}}) {
    TokenSampler sampler(options, 20);
    for (uint64_t position = 0; position < 200; ++position) {
      EXPECT_LT(sampler.sample(logits, position), 20);
    }
  }
}

TEST(TokenSampler, DrawsAsOftenAsTheModelSays) {
  const std::vector<float> logits = {0.0f, std::log(2.0f), std::log(5.0f)};
  TokenSampler sampler({.temperature = 1.0}, 3);
  std::vector<int> drawn(3);
  for (uint64_t position = 0; position < 8000; ++position) {
    ++drawn[size_t(sampler.sample(logits, position))];
  }
  EXPECT_NEAR(drawn[0], 1000, 150);
  EXPECT_NEAR(drawn[1], 2000, 150);
  EXPECT_NEAR(drawn[2], 5000, 150);
}

// Only the last kRepeatTokens count, a token that came twice counts once, and 1 changes nothing.
TEST(TokenSampler, AnAppliedPenaltyMakesTheLastTokensLessLikely) {
  const std::vector<float> logits = {3.0f, 2.0f, -1.0f, -1.9f};
  const auto likeliest = [&](double penalty, const std::vector<int32_t>& context) {
    TokenSampler sampler({.temperature = 0.0, .repeat_penalty = penalty}, 4);
    sampler.note(context);
    return sampler.sample(logits, 0);
  };
  EXPECT_EQ(likeliest(1.0, {0, 0}), 0);
  EXPECT_EQ(likeliest(1.4, {0, 0}), 0);
  EXPECT_EQ(likeliest(2.0, {0}), 1);
  EXPECT_EQ(likeliest(100.0, {0, 1, 2}), 0);  // -1 becomes -100, and 3 only 0.03
  std::vector<int32_t> long_ago(size_t(kRepeatTokens), 3);
  long_ago.insert(long_ago.begin(), 0);
  EXPECT_EQ(likeliest(2.0, long_ago), 0);
}

TEST(TokenSampler, RefusesOptionsThatMeanNothing) {
  EXPECT_TRUE(check_sampling({}).ok());
  EXPECT_TRUE(check_sampling({.temperature = 0.0, .top_k = 5, .top_p = 0.01}).ok());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = -1.0}, SamplingOptions{.temperature = nan},
        SamplingOptions{.top_k = -1}, SamplingOptions{.top_p = 0.0}, SamplingOptions{.top_p = 2.0},
        SamplingOptions{.top_p = nan}, SamplingOptions{.repeat_penalty = 0.0},
        SamplingOptions{.repeat_penalty = nan}}) {
    EXPECT_FALSE(check_sampling(options).ok());
  }
}

}  // namespace
}  // namespace trireme
