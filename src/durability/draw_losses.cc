#include "durability/draw_losses.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/philox.h"

namespace trireme {
namespace {

constexpr double kNormalFrom = 64.0;  // blocks; fewer are drawn exactly
constexpr double kHalfWidth = 1.96;   // of a 95 % interval, in standard errors

// A number in (0, 1).
double open_uniform(uint32_t word) { return (double(word) + 0.5) * 0x1p-32; }

// A number of blocks, at least one, from a Poisson distribution with this mean.
double some_blocks(double mean, const PhiloxCounter& words) {
  const double share = open_uniform(words[2]);
  if (mean > kNormalFrom) {
    const double radius = std::sqrt(-2.0 * std::log(share));
    const double normal = radius * std::cos(2.0 * std::numbers::pi * open_uniform(words[3]));
    return std::max(1.0, std::round(mean + std::sqrt(mean) * normal));
  }
  const double target = share * -std::expm1(-mean);
  double blocks = 1.0, term = mean * std::exp(-mean);
  for (double sum = term; sum < target && term > 0.0; sum += term) term *= mean / ++blocks;
  return blocks;
}

// What one sequence of losses costs in a year, weighted.
struct Sample {
  double events = 0.0;
  double blocks = 0.0;
};

class LossSampler {
 public:
  LossSampler(const PlacedBlocks& placed, uint64_t seed)
      : placed_(placed), key_(rng_key(seed, "losses of storage")) {
    double sum = 0.0;
    for (const LossUnit& unit : placed.units) up_to_.push_back(sum += unit.per_year);
  }

  Sample draw(uint64_t number) const {
    const double chunk_losses_per_s = placed_.chunk_losses_per_s();
    const LossUnit* unit = &unit_at(philox(key_, counter_of(number, 0))[1]);
    double blocks = placed_.blocks_on(*unit);
    double weight = unit->count * chunk_losses_per_s * kSecondsOfYear;
    for (int lost = 1;; ++lost) {
      const PhiloxCounter words = philox(key_, counter_of(number, uint64_t(lost)));
      const bool jumps_queue = placed_.worst_first && lost > 1;
      const double rebuild_s = placed_.rebuild_s(jumps_queue ? blocks : placed_.blocks_on(*unit));
      const double window_s = placed_.detect_s + rebuild_s;
      const double rebuilding_s = open_uniform(words[0]) * window_s - placed_.detect_s;
      const double left = rebuilding_s <= 0.0 ? 1.0 : 1.0 - rebuilding_s / rebuild_s;
      unit = &unit_at(words[1]);
      // Losses of such units in other domains within the window. The probability with which this
      // kind was drawn is divided out.
      const double other_domains = (placed_.domains - lost) / placed_.domains;
      weight *= unit->count * other_domains * chunk_losses_per_s * window_s;
      const double mean = blocks * left * placed_.share_on(*unit, lost);
      if (lost == placed_.num_parity) return {weight * -std::expm1(-mean), weight * mean};
      weight *= -std::expm1(-mean);
      blocks = some_blocks(mean, words);
    }
  }

 private:
  // A unit of a kind, drawn as often as a chunk is lost with it.
  const LossUnit& unit_at(uint32_t word) const {
    const auto found =
        std::upper_bound(up_to_.begin(), up_to_.end(), open_uniform(word) * up_to_.back());
    return placed_.units[std::min(size_t(found - up_to_.begin()), up_to_.size() - 1)];
  }

  const PlacedBlocks& placed_;
  RngKey key_;
  std::vector<double> up_to_;  // sums of the losses per year
};

// The mean of weights and its standard error.
class WeightSum {
 public:
  void add(double weight) {
    sum_ += weight;
    squares_ += weight * weight;
    ++count_;
  }
  double mean() const { return sum_ / count_; }
  double half_width() const {
    const double variance = std::max(0.0, squares_ / count_ - mean() * mean());
    return kHalfWidth * std::sqrt(variance / count_);
  }

 private:
  double sum_ = 0.0, squares_ = 0.0, count_ = 0.0;
};

}  // namespace

DrawnLosses draw_losses(const PlacedBlocks& placed, uint64_t seed, int64_t samples) {
  if (placed.units.empty() || placed.blocks < 1.0) return {.samples = samples};
  const LossSampler sampler(placed, seed);
  WeightSum events, blocks;
  for (int64_t number = 0; number < samples; ++number) {
    const Sample sample = sampler.draw(uint64_t(number));
    events.add(sample.events);
    blocks.add(sample.blocks);
  }
  return {.rate = {events.mean(), blocks.mean()},
          .events_half_width = events.half_width(),
          .blocks_half_width = blocks.half_width(),
          .samples = samples};
}

}  // namespace trireme
