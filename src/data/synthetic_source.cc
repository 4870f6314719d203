#include "data/synthetic_source.h"

#include <bit>
#include <cmath>
#include <string>

#include "base/check.h"

namespace trireme {
namespace {

// Successor k follows with probability 2^-(k+1). With the remaining probability 2^-4 any token
// follows.
constexpr int kNumSuccessors = 4;
constexpr double kNoise = 1.0 / (1 << kNumSuccessors);

int32_t uniform_token(uint32_t word, int64_t vocab_size) {
  return static_cast<int32_t>((uint64_t{word} * static_cast<uint64_t>(vocab_size)) >> 32);
}

// The density is proportional to 1 / sqrt(token): a few tokens are frequent, most are rare.
int32_t skewed_token(uint32_t word, int64_t vocab_size) {
  const uint64_t squared = (uint64_t{word} * word) >> 32;
  return uniform_token(static_cast<uint32_t>(squared), vocab_size);
}

}  // namespace

SyntheticSource::SyntheticSource(uint64_t seed, int64_t vocab_size, std::string_view split)
    : vocab_size_(vocab_size),
      sample_key_(rng_key(seed, "data.synthetic." + std::string(split))),
      successors_(static_cast<size_t>(vocab_size) * kNumSuccessors) {
  TRIREME_CHECK(vocab_size >= 1 && vocab_size <= INT32_MAX,
                "vocab_size is " + std::to_string(vocab_size));
  const RngKey table_key = rng_key(seed, "data.synthetic.table");
  for (int64_t token = 0; token < vocab_size; ++token) {
    const PhiloxCounter words = philox(table_key, counter_of(0, static_cast<uint64_t>(token)));
    for (int k = 0; k < kNumSuccessors; ++k) {
      successors_[token * kNumSuccessors + k] = skewed_token(words[k], vocab_size);
    }
  }
}

int32_t SyntheticSource::next_token(int32_t token, const PhiloxCounter& words) const {
  const int k = std::countl_zero(words[0]);  // k leading zeros: probability 2^-(k+1)
  if (k >= kNumSuccessors) return uniform_token(words[1], vocab_size_);
  return successors_[int64_t{token} * kNumSuccessors + k];
}

void SyntheticSource::read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                                  std::span<int32_t> targets) const {
  TRIREME_CHECK(inputs.size() == targets.size(), "inputs and targets differ in length");
  const PhiloxCounter first = philox(sample_key_, counter_of(global_sample, 0));
  int32_t token = skewed_token(first[0], vocab_size_);
  for (size_t t = 0; t < inputs.size(); ++t) {
    inputs[t] = token;
    token = next_token(token, philox(sample_key_, counter_of(global_sample, t + 1)));
    targets[t] = token;
  }
}

double SyntheticSource::entropy_rate() const {
  // Computes how often tokens occur: applies the chain's step until it has forgotten its start.
  const size_t num_tokens = static_cast<size_t>(vocab_size_);
  std::vector<double> frequency(num_tokens, 1.0 / static_cast<double>(vocab_size_));
  std::vector<double> next(num_tokens);
  for (int step = 0; step < 64; ++step) {
    next.assign(num_tokens, kNoise / static_cast<double>(vocab_size_));
    for (size_t token = 0; token < num_tokens; ++token) {
      for (int k = 0; k < kNumSuccessors; ++k) {
        next[successors_[token * kNumSuccessors + k]] += std::ldexp(frequency[token], -(k + 1));
      }
    }
    frequency.swap(next);
  }

  double nats = 0.0;
  for (size_t token = 0; token < num_tokens; ++token) {
    const double noise = kNoise / static_cast<double>(vocab_size_);
    double rest = static_cast<double>(vocab_size_);  // tokens that occur only as noise
    double row = 0.0;
    for (int k = 0; k < kNumSuccessors; ++k) {
      const int32_t* row_successors = &successors_[token * kNumSuccessors];
      double probability = noise;
      bool counted = false;
      for (int other = 0; other < kNumSuccessors; ++other) {
        if (row_successors[other] != row_successors[k]) continue;
        counted |= other < k;
        probability += std::ldexp(1.0, -(other + 1));
      }
      if (counted) continue;
      row -= probability * std::log(probability);
      rest -= 1.0;
    }
    nats += frequency[token] * (row - rest * noise * std::log(noise));
  }
  return nats;
}

}  // namespace trireme
