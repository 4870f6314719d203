#include "train/left_out_samples.h"

#include <algorithm>

namespace trireme {

void leave_out(SampleRange range, std::vector<SampleRange>& left_out) {
  if (range.count <= 0) return;
  if (std::find(left_out.begin(), left_out.end(), range) == left_out.end()) {
    left_out.push_back(range);
  }
}

uint64_t next_whole_batch(std::span<const SampleRange> left_out, uint64_t first_sample,
                          int64_t batch) {
  auto first = static_cast<int64_t>(first_sample);
  const auto is_hit = [&](const SampleRange& range) {
    return range.first < first + batch && range.end() > first;
  };
  for (auto hit = std::find_if(left_out.begin(), left_out.end(), is_hit); hit != left_out.end();
       hit = std::find_if(left_out.begin(), left_out.end(), is_hit)) {
    first = hit->end();
  }
  return static_cast<uint64_t>(first);
}

int64_t num_left_out(std::span<const SampleRange> left_out, uint64_t next_sample) {
  std::vector<SampleRange> sorted(left_out.begin(), left_out.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const SampleRange& a, const SampleRange& b) { return a.first < b.first; });
  int64_t count = 0, counted_to = 0;  // ranges may overlap
  for (const SampleRange& range : sorted) {
    const int64_t begin = std::max(range.first, counted_to);
    const int64_t end = std::min(range.end(), static_cast<int64_t>(next_sample));
    count += std::max<int64_t>(0, end - begin);
    counted_to = std::max(counted_to, end);
  }
  return count;
}

}  // namespace trireme
