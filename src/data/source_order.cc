#include "data/source_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/philox.h"

namespace trireme {

SourceOrder::SourceOrder(uint64_t seed, std::span<const double> weights)
    : weights_(weights.begin(), weights.end()),
      all_weights_(std::accumulate(weights.begin(), weights.end(), 0.0)) {
  TRIREME_CHECK(!weights_.empty(), "a mixture of no sources");
  const RngKey key = rng_key(seed, "data.mixture");
  for (size_t source = 0; source < weights_.size(); ++source) {
    TRIREME_CHECK(weights_[source] > 0.0 && std::isfinite(weights_[source]),
                  "source " + std::to_string(source) + " has no weight");
    phases_.push_back((philox(key, counter_of(source, 0))[0] + 0.5) / 4294967296.0);
  }
}

double SourceOrder::time_of(size_t source, uint64_t sample) const {
  return (double(sample) + phases_[source]) / weights_[source];
}

uint64_t SourceOrder::count_before(size_t source, Place of) const {
  if (source == of.source) return of.sample;
  const double time = time_of(of.source, of.sample);
  // If times are equal, the source with the lower number comes first. The formula gives an estimate
  // with rounding errors, which the loops correct.
  const auto is_before = [&](uint64_t sample) {
    return std::pair(time_of(source, sample), source) < std::pair(time, of.source);
  };
  auto count = uint64_t(std::max(0.0, std::ceil(time * weights_[source] - phases_[source])));
  while (count > 0 && !is_before(count - 1)) --count;
  while (is_before(count)) ++count;
  return count;
}

uint64_t SourceOrder::global_of(Place place) const {
  uint64_t global = 0;
  for (size_t source = 0; source < num_sources(); ++source) global += count_before(source, place);
  return global;
}

SourceOrder::Place SourceOrder::place_of(uint64_t global_sample) const {
  for (size_t source = 0; source < num_sources(); ++source) {
    const uint64_t sample = count(source, global_sample);
    if (global_of({source, sample}) == global_sample) return {source, sample};
  }
  TRIREME_CHECK(false, "no source has sample " + std::to_string(global_sample));
  return {};
}

uint64_t SourceOrder::count(size_t source, uint64_t num_samples) const {
  // The result differs from the expected number by less than `bound` (see the class).
  const double expected = double(num_samples) * share(source);
  const double bound = 2.0 + double(num_sources()) * share(source);
  auto low = uint64_t(std::max(0.0, expected - bound));
  auto high = uint64_t(expected + bound) + 1;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (global_of({source, middle}) < num_samples) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace trireme
