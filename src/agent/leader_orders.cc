// The leader tells the ranks of an epoch what to do.
#include <algorithm>
#include <cstring>

#include "agent/leader.h"
#include "base/clock.h"
#include "failures/evidence_json.h"

namespace trireme {

void Leader::add_failures(EpochOrder& order) const {
  const std::vector<JobFailure>& failures = policy_.failures();
  order.num_failures = int(failures.size());
  order.first_failure_number = int(page_->told_failures) + 1;
  std::string lines;
  for (int number = order.first_failure_number; number <= order.num_failures; ++number) {
    lines += failure_line(failures[size_t(number - 1)], number);
  }
  // If not all failures fit, the last ones are kept.
  while (lines.size() >= sizeof order.failures) lines.erase(0, lines.find('\n') + 1);
  std::memcpy(order.failures, lines.data(), lines.size());
}

void Leader::add_left_out(EpochOrder& order) const {
  for (const SampleRange& range : policy_.left_out()) {
    if (order.num_left_out < kMostLeftOutBatches) {
      order.left_out[size_t(order.num_left_out++)] = range;
    }
  }
}

// The younger checkpoints are set aside before an epoch does its first step. So the failures since
// the last epoch that has done a step decide, even if another host was the leader then.
void Leader::add_clean_step(EpochOrder& order) const {
  const auto take = [&](int64_t step) {
    order.clean_step = order.clean_step < 0 ? step : std::min(order.clean_step, step);
  };
  for (const JobFailure& failure : policy_.failures()) {
    if (failure.epoch < page_->trained_epoch) continue;
    const auto& corruption = failure.evidence.corruption;
    if (corruption && corruption->clean_step) take(*corruption->clean_step);
    if (failure.goes_back_to < 0) continue;
    take(failure.goes_back_to);
    order.must_go_back = 1;
  }
}

EpochOrder Leader::order_of(int rank) const {
  EpochOrder order = times_;
  order.epoch = place_.epoch;
  order.rendezvous.fill('\0');
  place_.rendezvous.copy(order.rendezvous.data(), order.rendezvous.size() - 1);
  order.is_first = is_first_epoch_ ? 1 : 0;
  order.rank = rank;
  order.size = place_.size;
  order.layout = layout_;
  order.ranks_on_host = ranks_on(ranks_[size_t(rank)].host);
  order.made_ns = steady_now_ns();
  add_clean_step(order);
  add_left_out(order);
  if (rank == 0) add_failures(order);
  return order;
}

}  // namespace trireme
