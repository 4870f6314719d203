#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "train/engine.h"
#include "train/observer.h"

namespace trireme {

// Counts values into fixed buckets, so that the counts of ranks can be added. One bucket is around
// zero. On both sides of it each bucket is 1.1 times as wide as the one before, from 1e-12 to 1e20.
class HistogramCounter {
 public:
  void add(std::span<const float> values, double scale);
  void add(const HistogramCounter& other);

  // Merges runs of empty buckets into one.
  TensorHistogram histogram(std::string_view name) const;

  // Serialized counts, to send them to another rank.
  std::string text() const;
  static HistogramCounter parse(std::string_view text);

 private:
  double min_ = 0.0, max_ = 0.0, sum_ = 0.0, sum_squares_ = 0.0;
  int64_t num_ = 0;
  std::vector<int64_t> counts_;  // [bucket]; empty until a value is added
};

// Histograms of the parameters and of the last step's gradients, for the whole model. Every rank
// calls it; rank 0 gets the result. `valid_tokens` is that of the step, because gradients are
// stored as sums over tokens.
HistogramReport gather_histograms(Engine& engine, int64_t valid_tokens);

}  // namespace trireme
