#include "watch/watchdog.h"

#include <algorithm>

namespace trireme {

void Watchdog::update(Seen& seen, const ObservedRank& rank, int64_t gap_ns) {
  const RankSample& sample = rank.sample;
  if (sample.epoch != seen.epoch) {
    seen.epoch = sample.epoch;
    seen.steps = 0;
    seen.budget.begin_epoch();
  }
  if (sample.steps > seen.steps) {
    seen.steps = sample.steps;
    seen.budget.add_step(sample.steps, sample.took_ns);
  }
  if (sample.beats == seen.beats) {
    seen.silent_ns += gap_ns;
    return;
  }
  seen.beats = sample.beats;
  seen.silent_ns = 0;
  seen.cpu_ns = rank.cpu_ns;
}

WatchedRank Watchdog::watched(const Seen& seen, const ObservedRank& rank) const {
  WatchedRank watched{.sample = rank.sample,
                      .silent_ns = seen.silent_ns,
                      .budget_ns = seen.budget.in_phase_ns(rank.sample),
                      .most_ns = PhaseBudget::most_ns(rank.sample),
                      .is_stopped = rank.is_stopped};
  if (rank.is_stopped) watched.budget_ns = seen.budget.of_stopped_ns(rank.sample);
  const auto got_ns = double(rank.cpu_ns - seen.cpu_ns);
  const bool is_starved =
      rank.is_runnable && !rank.is_stopped && got_ns < kLeastCpuShare * double(seen.silent_ns);
  if (is_starved) watched.budget_ns *= kStarvedFactor;
  if (rank.awaits_disk) watched.budget_ns *= kDiskFactor;
  return watched;
}

std::optional<RankVerdict> Watchdog::look(int64_t now_ns, std::span<const ObservedRank> ranks) {
  const int64_t gap_ns = looked_ns_ == 0 ? 0 : std::min(now_ns - looked_ns_, kMostGapNs);
  looked_ns_ = now_ns;
  std::erase_if(seen_, [&](const auto& entry) {
    return std::none_of(ranks.begin(), ranks.end(),
                        [&](const ObservedRank& rank) { return rank.process == entry.first; });
  });
  std::vector<WatchedRank> all;
  std::vector<RankSample> samples;
  watched_.clear();
  for (const ObservedRank& rank : ranks) {
    Seen& seen = seen_[rank.process];
    update(seen, rank, gap_ns);
    all.push_back(watched(seen, rank));
    watched_.push_back({rank.process, all.back()});
    samples.push_back(rank.sample);
  }
  for (const SlowRank& slow : slow_ranks_.look(samples)) slow_.push_back(slow);
  const std::optional<Blame> blame = find_blamed(all);
  const int64_t process = blame ? ranks[blame->index].process : 0;
  const bool is_confirmed = blame && process == suspect_;
  suspect_ = process;
  if (!is_confirmed) return std::nullopt;
  const WatchedRank& blamed = all[blame->index];
  return RankVerdict{process, *blame, blamed.silent_ns, blamed.budget_ns};
}

}  // namespace trireme
