#include "models/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/philox.h"

namespace trireme {

Status check_sampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0.0)) {
    return Error{ErrorKind::Usage,
                 fmt::format("a temperature of {} is below 0: 0 takes the likeliest token, 1 draws "
                             "as the model says",
                             options.temperature)};
  }
  if (options.top_k < 0) {
    return Error{ErrorKind::Usage,
                 fmt::format("top-k {} is below 0: 0 keeps all tokens", options.top_k)};
  }
  if (!(options.top_p > 0.0 && options.top_p <= 1.0)) {
    return Error{
        ErrorKind::Usage,
        fmt::format("top-p {} is no probability above 0: 1 keeps all tokens", options.top_p)};
  }
  if (!(options.repeat_penalty > 0.0 && std::isfinite(options.repeat_penalty))) {
    return usage(fmt::format(
        "a repeat penalty of {} is not above 0: 1 changes nothing, 1.1 makes repeats less likely",
        options.repeat_penalty));
  }
  return Done{};
}

TokenSampler::TokenSampler(const SamplingOptions& options, int64_t vocab_size)
    : options_(options), order_(vocab_size), probabilities_(vocab_size) {
  if (options.repeat_penalty != 1.0) penalized_.resize(size_t(vocab_size));
}

void TokenSampler::note(std::span<const int32_t> tokens) {
  if (penalized_.empty()) return;
  recent_.insert(recent_.end(), tokens.begin(), tokens.end());
  const int64_t surplus = int64_t(recent_.size()) - kRepeatTokens;
  if (surplus > 0) recent_.erase(recent_.begin(), recent_.begin() + surplus);
}

// A token that occurs several times is penalized once.
std::span<const float> TokenSampler::penalized(std::span<const float> logits) {
  if (penalized_.empty()) return logits;
  std::copy(logits.begin(), logits.end(), penalized_.begin());
  const auto penalty = float(options_.repeat_penalty);
  for (const int32_t token : recent_) {
    if (token < 0 || size_t(token) >= logits.size()) continue;
    const float logit = logits[size_t(token)];
    penalized_[size_t(token)] = logit > 0.0f ? logit / penalty : logit * penalty;
  }
  return penalized_;
}

int32_t TokenSampler::sample(std::span<const float> logits, uint64_t position) {
  logits = penalized(logits.first(order_.size()));
  if (options_.temperature <= 0.0) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  std::iota(order_.begin(), order_.end(), 0);
  const int64_t vocab_size = static_cast<int64_t>(order_.size());
  int64_t kept = options_.top_k > 0 ? std::min(options_.top_k, vocab_size) : vocab_size;
  // Ties go to the smaller token, so that a sample is the same everywhere.
  const auto more_likely = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const bool need_order = kept < vocab_size || options_.top_p < 1.0;
  if (need_order)
    std::partial_sort(order_.begin(), order_.begin() + kept, order_.end(), more_likely);

  const float top =
      need_order ? logits[order_[0]] : *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (int64_t i = 0; i < kept; ++i) {
    probabilities_[i] = std::exp((double(logits[order_[i]]) - top) / options_.temperature);
    sum += probabilities_[i];
  }
  if (options_.top_p < 1.0) {
    double reached = 0.0;
    int64_t enough = 0;
    while (enough < kept && reached < options_.top_p * sum) reached += probabilities_[enough++];
    kept = std::max<int64_t>(1, enough);
    sum = reached;
  }
  const PhiloxCounter words = philox(rng_key(options_.seed, "sample"), counter_of(position, 0));
  double remaining = (words[0] + 0.5) / 4294967296.0 * sum;
  for (int64_t i = 0; i < kept; ++i) {
    remaining -= probabilities_[i];
    if (remaining < 0.0) return order_[i];
  }
  return order_[kept - 1];
}

}  // namespace trireme
