#include "watch/rank_sample.h"

#include <algorithm>

#include "watch/rank_pages.h"

namespace trireme {

RankSample RankSample::of(const ProgressPage& page) {
  const auto get = [](const auto& word) { return word.load(std::memory_order_acquire); };
  RankSample sample;
  sample.beats = get(page.beats_);
  sample.epoch = get(page.epoch_);
  sample.rank = sample.epoch == 0 ? -1 : get(page.rank_);
  sample.stage = get(page.stage_);
  sample.phase = page.phase();
  sample.collective = get(page.collective_);
  sample.phase_ns = get(page.phase_ns_);
  sample.step = get(page.step_);
  sample.step_ns = get(page.step_ns_);
  sample.first_sample = get(page.first_sample_);
  sample.num_samples = get(page.num_samples_);
  sample.action = get(page.action_);
  sample.steps = get(page.steps_);  // before the times of the step
  sample.took_ns = get(page.took_ns_);
  sample.computed_ns = get(page.computed_ns_);
  sample.nonfinite_steps = get(page.nonfinite_steps_);
  sample.calls = get(page.calls_);
  sample.bytes = get(page.bytes_);
  sample.wait_ns = get(page.wait_ns_);
  sample.wait_sequence = get(page.wait_sequence_);
  sample.wait_group = get(page.wait_group_);
  sample.wait_peer = get(page.wait_peer_);
  sample.file_limit_ns = get(page.file_limit_ns_);
  sample.wait_limit_ns = get(page.wait_limit_ns_);
  for (size_t group = 0; group < sample.issued.size(); ++group) {
    sample.issued[group] = get(page.issued_[group]);
  }
  return sample;
}

RankSample RankSample::of(const RankPages& pages) {
  RankSample sample = of(pages.progress);
  const std::string text = pages.program.text_of(sample.action);
  std::copy_n(text.begin(), std::min(text.size(), sample.action_code.size() - 1),
              sample.action_code.begin());
  return sample;
}

}  // namespace trireme
