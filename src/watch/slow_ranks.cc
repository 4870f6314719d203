#include "watch/slow_ranks.h"

#include <algorithm>

#include "base/order_statistics.h"

namespace trireme {

void SlowRanks::begin_epoch(uint64_t epoch) {
  epoch_ = epoch;
  seen_.clear();
}

std::vector<SlowRank> SlowRanks::look(std::span<const RankSample> samples) {
  std::vector<SlowRank> found;
  if (samples.empty()) return found;
  for (const RankSample& sample : samples) {
    if (sample.epoch == 0 || sample.steps == 0) return found;  // not all of them train yet
    if (sample.epoch > epoch_) begin_epoch(sample.epoch);
    const Seen& seen = seen_[sample.rank];
    if (sample.epoch < epoch_ || sample.steps < seen.steps + kPieceSteps) return found;
    if (seen.steps > 0 && sample.step_ns < seen.step_ns + kPieceNs) return found;
  }
  std::map<int, std::vector<double>> times;  // of a step, by stage
  const auto time_of = [&](const RankSample& sample) {
    const Seen& seen = seen_[sample.rank];
    return double(sample.computed_ns - seen.computed_ns) / double(sample.steps - seen.steps);
  };
  for (const RankSample& sample : samples) times[sample.stage].push_back(time_of(sample));
  for (const RankSample& sample : samples) {
    Seen& seen = seen_[sample.rank];
    // The lower of two middle times counts, so that of two ranks the slower one stands out.
    const double ratio = time_of(sample) / std::max(1.0, lower_median(times[sample.stage]));
    const bool is_slow = seen.steps > 0 && ratio > kRatio;  // the first steps do not count
    seen.slow_pieces = is_slow ? seen.slow_pieces + 1 : 0;
    seen.steps = sample.steps;
    seen.computed_ns = sample.computed_ns;
    seen.step_ns = sample.step_ns;
    if (seen.slow_pieces < kPieces || seen.is_reported) continue;
    seen.is_reported = true;
    found.push_back({sample.rank, ratio});
  }
  return found;
}

}  // namespace trireme
