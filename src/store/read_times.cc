#include "store/read_times.h"

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

constexpr size_t kFewReads = 20;
constexpr int64_t kFirstPatienceNs = 1'000'000'000;
constexpr int64_t kLeastPatienceNs = 2'000'000;

}  // namespace

void ReadTimes::add(int64_t ns) {
  const std::lock_guard lock(mutex_);
  newest_[count_++ % newest_.size()] = ns;
}

int64_t ReadTimes::patience_ns() const {
  const std::lock_guard lock(mutex_);
  if (count_ < kFewReads) return kFirstPatienceNs;
  std::vector<int64_t> times(newest_.begin(),
                             newest_.begin() + ptrdiff_t(std::min(count_, newest_.size())));
  const auto p95 = times.begin() + ptrdiff_t(times.size() * 95 / 100);
  std::ranges::nth_element(times, p95);
  return std::max(*p95, kLeastPatienceNs);
}

void ReadTimes::begin_block() {
  const std::lock_guard lock(mutex_);
  ++num_blocks_;
}

bool ReadTimes::may_hedge() {
  const std::lock_guard lock(mutex_);
  if (num_hedged_ * 10 >= num_blocks_) return false;
  ++num_hedged_;
  return true;
}

void ReadTimes::give_back_hedge() {
  const std::lock_guard lock(mutex_);
  --num_hedged_;
}

int64_t ReadTimes::num_hedged() const {
  const std::lock_guard lock(mutex_);
  return num_hedged_;
}

}  // namespace trireme
