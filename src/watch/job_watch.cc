#include "watch/job_watch.h"

#include <fmt/format.h>

#include <utility>

namespace trireme {

void JobWatch::take(int host, int64_t now_ns, std::vector<WatchedProcess> ranks) {
  Report& report = reports_[host];
  ++report.number;
  report.taken_ns = now_ns;
  report.ranks = std::move(ranks);
  has_news_ = true;
}

void JobWatch::begin_epoch() {
  reports_.clear();
  suspect_ = {};
}

std::optional<JobVerdict> JobWatch::look(int64_t now_ns) {
  std::vector<WatchedRank> all;
  std::vector<std::pair<int, int64_t>> places;  // host and process of each
  for (const auto& [host, report] : reports_) {
    if (now_ns - report.taken_ns > kFreshNs) continue;
    for (const WatchedProcess& one : report.ranks) {
      all.push_back(one.rank);
      places.emplace_back(host, one.process);
    }
  }
  const std::optional<Blame> blame = find_blamed(all);
  if (!blame) {
    suspect_ = {};
    return std::nullopt;
  }
  const auto& [host, process] = places[blame->index];
  const WatchedRank& blamed = all[blame->index];
  const int64_t number = reports_[host].number;
  if (process != suspect_.process || blamed.sample.beats != suspect_.beats) {
    suspect_ = {process, blamed.sample.beats, number};
  }
  if (number - suspect_.first_report + 1 < kReports) return std::nullopt;
  suspect_ = {};
  return JobVerdict{
      host, process,
      fmt::format("did not answer for {:.2f} s (budget {:.2f} s): it {}; {} rank{} of the job "
                  "waited for it",
                  double(blamed.silent_ns) * 1e-9, double(blamed.budget_ns) * 1e-9, blame->why,
                  blame->num_waiting, blame->num_waiting == 1 ? "" : "s")};
}

std::vector<SlowRank> JobWatch::take_slow(int size) {
  if (!std::exchange(has_news_, false)) return {};
  std::vector<RankSample> samples;
  for (const auto& [host, report] : reports_) {
    for (const WatchedProcess& one : report.ranks) samples.push_back(one.rank.sample);
  }
  if (int(samples.size()) != size) return {};
  return slow_ranks_.look(samples);
}

}  // namespace trireme
