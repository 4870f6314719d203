#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

// The order of the samples of a mixture. Sample k of source s has the time (k + phase_s) /
// weight_s, where the seed gives each source a phase in (0, 1). The samples of all sources are
// sorted by their times. So the place of a sample depends only on the seed, the weights and its
// number. Let p be the share of a source among S sources: of the first n samples it gives n p, up
// to a difference of 1 + S p.
class SourceOrder {
 public:
  struct Place {
    size_t source = 0;
    uint64_t sample = 0;  // its number among the samples of this source
  };

  // There is at least one weight, and each is positive and finite.
  SourceOrder(uint64_t seed, std::span<const double> weights);

  size_t num_sources() const { return weights_.size(); }
  // Weight of the source, divided by the sum of all weights.
  double share(size_t source) const { return weights_[source] / all_weights_; }
  Place place_of(uint64_t global_sample) const;
  // Returns the number of samples of a source among the first num_samples.
  uint64_t count(size_t source, uint64_t num_samples) const;

 private:
  double time_of(size_t source, uint64_t sample) const;
  // Number of samples of `source` that come before the sample at the place `of`.
  uint64_t count_before(size_t source, Place of) const;
  uint64_t global_of(Place place) const;

  std::vector<double> weights_;
  std::vector<double> phases_;
  double all_weights_ = 0.0;
};

}  // namespace trireme
