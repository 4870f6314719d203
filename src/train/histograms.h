#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "train/engine.h"
#include "train/observer.h"

namespace trireme {

// Counts values into buckets that are the same everywhere, so that ranks' counts add up: one around
// zero, and towards both ends buckets that are each 1.1 times as wide as the one before, from
// 1e-12 to 1e20.
class HistogramCounter {
 public:
  void add(std::span<const float> values, double scale);
  void add(const HistogramCounter& other);

  // Runs of empty buckets become one.
  TensorHistogram histogram(std::string_view name) const;

  // To hand over to another rank, and back.
  std::string text() const;
  static HistogramCounter parse(std::string_view text);

 private:
  double min_ = 0.0, max_ = 0.0, sum_ = 0.0, sum_squares_ = 0.0;
  int64_t num_ = 0;
  std::vector<int64_t> counts_;  // [bucket]; empty as long as nothing has been added
};

// The parameters and the gradients of the last step, of the whole model; every rank calls it, rank
// 0 gets the result. `valid_tokens` of that step: gradients are kept as sums over them.
HistogramReport gather_histograms(Engine& engine, int64_t valid_tokens);

}  // namespace trireme
