#include "watch/phase_budget.h"

#include <algorithm>

namespace trireme {
namespace {

// A rank that has not said yet what its run allows.
constexpr int64_t kUsualWaitNs = 60'000'000'000;
constexpr int64_t kUsualFileNs = 300'000'000'000;
// The rank and its peers notice a deadline themselves, with a better report. They are given so
// long for it.
constexpr int64_t kGraceNs = 5'000'000'000;
constexpr int64_t kRecoverNs = 3'700'000'000'000;  // ranks wait for an hour (rank_link.cc)

}  // namespace

void PhaseBudget::add_step(int64_t number, int64_t took_ns) {
  if (number <= kFirstSteps) return;
  took_ns_[num_++ % kWindow] = took_ns;
}

int64_t PhaseBudget::most_ns(const RankSample& sample) {
  const int64_t wait_ns = sample.wait_limit_ns > 0 ? sample.wait_limit_ns : kUsualWaitNs;
  const int64_t file_ns = sample.file_limit_ns > 0 ? sample.file_limit_ns : kUsualFileNs;
  switch (sample.phase) {
    case RankPhase::WarmUp:
    case RankPhase::Step:
      return wait_ns + kGraceNs;
    case RankPhase::Recover:
      return kRecoverNs;
    default:
      return std::max(wait_ns, file_ns) + kGraceNs;
  }
}

int64_t PhaseBudget::of_step_ns(const RankSample& sample) const {
  if (num_ < kLeastLearned) {
    RankSample stepping = sample;
    stepping.phase = RankPhase::Step;
    return most_ns(stepping);
  }
  // With at most 50 numbers, the 99th percentile is the greatest.
  const auto end = took_ns_.begin() + std::min<int64_t>(int64_t(num_), kWindow);
  const int64_t p99_ns = *std::max_element(took_ns_.begin(), end);
  return std::max(kFloorNs, int64_t(kFactor * double(p99_ns)));
}

int64_t PhaseBudget::of_stopped_ns(const RankSample& sample) const {
  const int64_t step_ns = of_step_ns(sample);
  return num_ < kLeastLearned ? std::min(step_ns, kUnknownStoppedNs) : step_ns;
}

int64_t PhaseBudget::in_phase_ns(const RankSample& sample) const {
  return sample.phase == RankPhase::Step ? of_step_ns(sample) : most_ns(sample);
}

}  // namespace trireme
