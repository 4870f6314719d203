#include "watch/job_watch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>

#include "watch/simulated_ranks.h"
#include "watch/watchdog.h"

namespace trireme {
namespace {

using Fault = SimulatedRanks::Fault;

// How a simulated job is blamed: by the host of the rank, or by all hosts together.
struct Blamed {
  int rank = -1;
  bool by_job = false;
  double after_s = 0.0;
};

// A job whose ranks are dealt to hosts in turns, so that neighbours are on different hosts. Each
// host has its own watchdog. Its reports reach the leader after a random time.
class SimulatedJob {
 public:
  SimulatedJob(const SimulatedRanks::Options& options, int num_hosts)
      : ranks_(options), dogs_(size_t(num_hosts)), told_ns_(size_t(num_hosts), 0) {}

  SimulatedRanks& ranks() { return ranks_; }
  // The network of the host stands still from now on.
  void cut_off(int host) { cut_off_ = host; }

  std::optional<Blamed> run(double seconds) {
    const int64_t begin_ns = ranks_.now_ns(), end_ns = begin_ns + int64_t(seconds * 1e9);
    while (ranks_.now_ns() < end_ns) {
      ranks_.advance(10'000'000);
      const auto after_s = [&] { return double(ranks_.now_ns() - begin_ns) * 1e-9; };
      if (const auto own = look_on_hosts()) return Blamed{own->blame.rank, false, after_s()};
      deliver();
      if (const auto verdict = watch_.look(ranks_.now_ns())) {
        EXPECT_EQ(verdict->host, host_of(int(verdict->process) - 1));
        return Blamed{int(verdict->process) - 1, true, after_s()};
      }
      for (const SlowRank& slow : watch_.take_slow(ranks_.size())) slow_.push_back(slow);
    }
    return std::nullopt;
  }
  const std::vector<SlowRank>& slow() const { return slow_; }

 private:
  struct Sent {
    int64_t at_ns = 0;
    int host = 0;
    std::vector<WatchedProcess> watched;
  };
  int host_of(int rank) const { return rank % int(dogs_.size()); }

  std::optional<RankVerdict> look_on_hosts() {
    const std::vector<ObservedRank> all = ranks_.observed();
    for (size_t host = 0; host < dogs_.size(); ++host) {
      std::vector<ObservedRank> own;
      for (size_t rank = 0; rank < all.size(); ++rank) {
        if (host_of(int(rank)) == int(host)) own.push_back(all[rank]);
      }
      if (auto verdict = dogs_[host].look(ranks_.now_ns(), own)) return verdict;
      send(int(host));
    }
    return std::nullopt;
  }

  void send(int host) {
    const std::vector<WatchedProcess>& watched = dogs_[size_t(host)].watched();
    const bool is_silent = std::any_of(watched.begin(), watched.end(), [](const auto& one) {
      return one.rank.silent_ns > JobWatch::kSilentNs;
    });
    const int64_t every_ns = is_silent ? JobWatch::kReportNs : JobWatch::kCalmReportNs;
    if (ranks_.now_ns() - told_ns_[size_t(host)] < every_ns || host == cut_off_) return;
    told_ns_[size_t(host)] = ranks_.now_ns();
    sent_.push_back({ranks_.now_ns() + int64_t(random_() % 30'000'000), host, watched});
  }

  void deliver() {
    for (auto it = sent_.begin(); it != sent_.end();) {
      if (it->at_ns > ranks_.now_ns()) {
        ++it;
        continue;
      }
      watch_.take(it->host, ranks_.now_ns(), std::move(it->watched));
      it = sent_.erase(it);
    }
  }

  SimulatedRanks ranks_;
  std::vector<Watchdog> dogs_;
  JobWatch watch_;
  std::vector<int64_t> told_ns_;
  std::deque<Sent> sent_;
  std::vector<SlowRank> slow_;
  std::mt19937_64 random_{3};
  int cut_off_ = -1;
};

constexpr int kWideLayouts[][3] = {{1, 2, 1}, {2, 1, 1}, {1, 1, 2}, {1, 3, 1}, {2, 2, 1},
                                   {1, 1, 4}, {2, 1, 2}, {1, 2, 3}, {2, 2, 2}, {1, 4, 2}};

// On most hosts there is one rank alone, so nobody waits for it there. The bound is the budget of
// about a second, or five long steps, and the time of three reports.
TEST(JobWatch, BlamesTheRankThatHangsWhereverTheRanksAre) {
  int right = 0, by_job = 0, num = 0;
  double longest_s = 0.0;
  for (int seed = 0; seed < 160; ++seed) {
    std::mt19937_64 random{uint64_t(seed)};
    const auto& layout = kWideLayouts[size_t(seed) % std::size(kWideLayouts)];
    const int size = layout[0] * layout[1] * layout[2];
    const int num_hosts = 2 + int(random() % uint64_t(size - 1));
    SimulatedJob job({.tp = layout[0],
                      .dp = layout[1],
                      .pp = layout[2],
                      .step_s = 0.01 + 0.04 * double(random() % 4),
                      .stalls = 0.01,
                      .most_stall_s = 0.2,
                      .seed = random()},
                     num_hosts);
    ASSERT_FALSE(job.run(3.0 + double(random() % 1000) * 1e-3)) << "seed " << seed;
    const auto fault = static_cast<Fault>(1 + random() % 4);
    const int culprit = int(random() % uint64_t(size));
    job.ranks().inject(fault, culprit);
    const std::optional<Blamed> blamed = job.run(20.0);
    ++num;
    if (!blamed || blamed->rank != culprit) {
      std::printf("seed %d: fault %d of rank %d of %d on %d hosts: %s\n", seed, int(fault), culprit,
                  size, num_hosts,
                  blamed ? fmt::format("rank {}", blamed->rank).c_str() : "not noticed");
      continue;
    }
    ++right;
    by_job += blamed->by_job ? 1 : 0;
    longest_s = std::max(longest_s, blamed->after_s);
  }
  std::printf(
      "%d of %d hangs blamed right, %d of them by all hosts together, the slowest after "
      "%.2f s\n",
      right, num, by_job, longest_s);
  EXPECT_GE(right, num * 99 / 100);
  EXPECT_GE(by_job, num / 3);
  EXPECT_LT(longest_s, 4.0);
}

// Every host judges its own ranks: what was a hang for none of them alone.
TEST(JobWatch, FollowsAChainOfWaitsOverHosts) {
  const auto rank_of = [](int rank, int peer, int64_t silent_ns) {
    WatchedRank one{.silent_ns = silent_ns, .budget_ns = 1'000'000'000, .most_ns = 65'000'000'000};
    one.sample.rank = rank;
    one.sample.epoch = 1;
    one.sample.phase = RankPhase::Step;
    one.sample.beats = 5;
    one.sample.wait_peer = peer;
    one.sample.wait_ns = peer >= 0 ? 1 : 0;
    return WatchedProcess{rank + 100, one};
  };
  constexpr int64_t kLongNs = 2'000'000'000;
  // Rank 0 waits for 1, which waits for 2, which waits for 3; each is on a host of its own.
  const auto report = [&](JobWatch& watch, int64_t now_ns, int64_t silent_ns) {
    for (int rank = 0; rank < 4; ++rank) {
      watch.take(rank, now_ns, {rank_of(rank, rank < 3 ? rank + 1 : -1, silent_ns)});
    }
    return watch.look(now_ns);
  };
  JobWatch watch;
  int64_t now_ns = 1'000'000'000;
  for (int i = 1; i < JobWatch::kReports; ++i) {
    EXPECT_FALSE(report(watch, now_ns += JobWatch::kReportNs, kLongNs)) << i << " reports";
    EXPECT_FALSE(watch.look(now_ns)) << "no new report";
  }
  const auto verdict = report(watch, now_ns += JobWatch::kReportNs, kLongNs);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->host, 3);
  EXPECT_EQ(verdict->process, 103);
  EXPECT_EQ(verdict->why,
            "did not answer for 2.00 s (budget 1.00 s): it computes or hangs in step 0, action -1, "
            "call 0; 3 ranks of the job waited for it");
  // Within its budget nobody is blamed, and neither if the reports are old.
  JobWatch other;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(report(other, now_ns += JobWatch::kReportNs, 900'000'000));
  }
  for (int i = 0; i < 10; ++i) {
    for (int rank = 0; rank < 4; ++rank) {
      // The hosts whose ranks wait have not been heard for some time.
      if (rank == 3) other.take(rank, now_ns + kLongNs, {rank_of(3, -1, kLongNs)});
    }
    EXPECT_FALSE(other.look(now_ns + kLongNs));
  }
}

// Reports of hosts are of different moments, and ranks lose their cores for up to three seconds.
TEST(JobWatch, RaisesNoFalseAlarmOnLoadedHosts) {
  for (const int num_hosts : {2, 3, 8}) {
    SimulatedJob job({.tp = 2,
                      .dp = 2,
                      .pp = 2,
                      .step_s = 0.02,
                      .stalls = 5e-4,
                      .most_stall_s = 3.0,
                      .seed = uint64_t(num_hosts)},
                     num_hosts);
    while (job.ranks().steps_of(0) < 2'000) {
      const auto blamed = job.run(1.0);
      ASSERT_FALSE(blamed) << "rank " << blamed->rank << " of " << num_hosts << " hosts after "
                           << job.ranks().steps_of(0) << " steps";
    }
  }
}

// A host from which nothing comes is not judged: its agent, or the network, stands still.
TEST(JobWatch, BlamesNoRankOfAHostThatIsNotHeard) {
  SimulatedJob job({.dp = 3, .step_s = 0.03, .seed = 9}, 3);
  ASSERT_FALSE(job.run(3.0));
  job.cut_off(1);
  ASSERT_FALSE(job.run(1.0));
  job.ranks().inject(Fault::Spin, 1);
  EXPECT_FALSE(job.run(8.0));
}

TEST(JobWatch, FindsASlowRankOfAStageThatHasOneRankOnEachHost) {
  for (const auto& layout : kWideLayouts) {
    const int per_stage = layout[0] * layout[1], size = per_stage * layout[2];
    SimulatedJob job({.tp = layout[0], .dp = layout[1], .pp = layout[2], .step_s = 0.03, .seed = 4},
                     size);
    ASSERT_FALSE(job.run(3.0));
    EXPECT_TRUE(job.slow().empty()) << "ranks of the same speed";
    job.ranks().inject(Fault::Slow, size - 1);
    EXPECT_FALSE(job.run(14.0)) << "a slow rank must not be killed";
    if (per_stage == 1) {
      EXPECT_TRUE(job.slow().empty());
      continue;
    }
    ASSERT_EQ(job.slow().size(), 1u) << size << " ranks";
    EXPECT_EQ(job.slow()[0].rank, size - 1);
  }
}

}  // namespace
}  // namespace trireme
