#include "watch/simulated_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

constexpr int64_t kTickNs = 500'000;
constexpr int64_t kShowWaitNs = 200'000;  // ranks show a wait only after they have polled
constexpr int kLayers = 3;

}  // namespace

SimulatedRanks::SimulatedRanks(const Options& options)
    : options_(options),
      random_(options.seed),
      pages_(std::make_unique<ProgressPage[]>(size_t(options.tp * options.dp * options.pp))),
      ranks_(size_t(options.tp * options.dp * options.pp)) {
  make_programs(options);
  const auto n = ranks_.size();
  issued_.assign(groups_.size(), std::vector<uint64_t>(n, 0));
  sent_.assign(n, std::vector<int64_t>(n, 0));
  received_ = sent_;
  for (int rank = 0; rank < size(); ++rank) {
    page(rank).begin_epoch(1, rank, now_ns_);
    page(rank).set_stage(rank / (options.tp * options.dp));
    page(rank).begin_step(1, now_ns_);
    ranks_[size_t(rank)].step_ns = now_ns_;
  }
}

int SimulatedRanks::add_group(const std::vector<int>& members) {
  groups_.push_back(members);
  return int(groups_.size()) - 1;
}

// Rank = (stage * dp + replica) * tp + slice, as in the mesh of a run.
void SimulatedRanks::make_programs(const Options& o) {
  using Kind = Event::Kind;
  std::vector<int> everyone;
  for (int rank = 0; rank < size(); ++rank) everyone.push_back(rank);
  const int world = add_group(everyone);
  std::vector<int> tp_of(ranks_.size(), -1), dp_of(ranks_.size(), -1);
  for (int stage = 0; stage < o.pp; ++stage) {
    for (int replica = 0; replica < o.dp; ++replica) {
      std::vector<int> members;
      for (int i = 0; i < o.tp; ++i) members.push_back((stage * o.dp + replica) * o.tp + i);
      const int group = add_group(members);
      for (const int rank : members) tp_of[size_t(rank)] = group;
    }
    for (int slice = 0; slice < o.tp; ++slice) {
      std::vector<int> members;
      for (int i = 0; i < o.dp; ++i) members.push_back((stage * o.dp + i) * o.tp + slice);
      const int group = add_group(members);
      for (const int rank : members) dp_of[size_t(rank)] = group;
    }
  }
  const int per_stage = o.tp * o.dp;
  for (int rank = 0; rank < size(); ++rank) {
    std::vector<Event>& program = ranks_[size_t(rank)].program;
    const int stage = rank / per_stage;
    const auto layers = [&] {
      for (int layer = 0; layer < kLayers; ++layer) {
        program.push_back({Kind::Compute});
        program.push_back({Kind::Collective, tp_of[size_t(rank)]});
      }
    };
    if (stage > 0) program.push_back({Kind::Recv, rank - per_stage});
    layers();
    if (stage + 1 < o.pp) {
      program.push_back({Kind::Send, rank + per_stage});
      program.push_back({Kind::Recv, rank + per_stage});
    }
    layers();
    if (stage > 0) program.push_back({Kind::Send, rank - per_stage});
    program.push_back({Kind::Collective, dp_of[size_t(rank)]});
    program.push_back({Kind::Collective, world});
  }
}

void SimulatedRanks::inject(Fault fault, int rank) { ranks_[size_t(rank)].fault = fault; }

void SimulatedRanks::end_event(Rank& rank) {
  rank.has_begun = false;
  ++rank.next;
}

// A rank that hangs by its own work does so in the middle of a computation.
bool SimulatedRanks::compute(int index) {
  Rank& rank = ranks_[size_t(index)];
  if (!rank.has_begun) {
    std::lognormal_distribution<double> spread(0.0, 0.3);
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    double seconds = options_.step_s / (2.0 * kLayers * options_.pp) * spread(random_);
    if (rank.fault == Fault::Slow) seconds *= 2.0;
    rank.loses_core = uniform(random_) < options_.stalls;
    // Long stalls are rare: their lengths have a heavy tail.
    if (rank.loses_core) seconds += options_.most_stall_s * std::pow(uniform(random_), 4.0);
    rank.until_ns = now_ns_ + int64_t(seconds * 1e9);
    rank.computed_ns += int64_t(seconds * 1e9);
    rank.has_begun = true;
    page(index).begin_action(int64_t(rank.next));
    rank.is_hung = rank.fault == Fault::Spin || rank.fault == Fault::Deadlock ||
                   rank.fault == Fault::BlockedIo;
  }
  if (rank.is_hung || now_ns_ < rank.until_ns) return false;
  end_event(rank);
  return true;
}

void SimulatedRanks::wait(int index, int peer, int group, uint64_t sequence) {
  Rank& rank = ranks_[size_t(index)];
  if (rank.is_waiting || now_ns_ - rank.arrived_ns < kShowWaitNs) return;
  rank.is_waiting = true;
  page(index).begin_wait(peer, group, sequence, rank.arrived_ns);
}

bool SimulatedRanks::collect(int index, const Event& event) {
  Rank& rank = ranks_[size_t(index)];
  std::vector<uint64_t>& issued = issued_[size_t(event.group)];
  if (!rank.has_begun) {
    rank.has_begun = true;
    rank.arrived_ns = now_ns_;
    page(index).begin_call(event.group, ++issued[size_t(index)], 0, 1 << 20);
  }
  const uint64_t sequence = issued[size_t(index)];
  for (const int peer : groups_[size_t(event.group)]) {
    if (issued[size_t(peer)] >= sequence) continue;
    wait(index, peer, event.group, sequence);
    return false;
  }
  if (rank.is_waiting) page(index).end_wait();
  rank.is_waiting = false;
  end_event(rank);
  return true;
}

bool SimulatedRanks::receive(int index, const Event& event) {
  Rank& rank = ranks_[size_t(index)];
  if (!rank.has_begun) {
    rank.has_begun = true;
    rank.arrived_ns = now_ns_;
    page(index).begin_call(0, 0, 1, 1 << 20);
  }
  int64_t& received = received_[size_t(event.group)][size_t(index)];
  if (sent_[size_t(event.group)][size_t(index)] <= received) {
    wait(index, event.group, 0, 0);
    return false;
  }
  ++received;
  if (rank.is_waiting) page(index).end_wait();
  rank.is_waiting = false;
  end_event(rank);
  return true;
}

bool SimulatedRanks::run(int index) {
  Rank& rank = ranks_[size_t(index)];
  if (rank.fault == Fault::Stopped) return false;
  if (rank.next == rank.program.size()) {
    page(index).end_step(now_ns_ - rank.step_ns, rank.computed_ns, 0);
    ++rank.steps;
    rank.next = 0;
    rank.computed_ns = 0;
    rank.step_ns = now_ns_;
    page(index).begin_step(rank.steps + 1, now_ns_);
  }
  const Event& event = rank.program[rank.next];
  switch (event.kind) {
    case Event::Kind::Compute:
      return compute(index);
    case Event::Kind::Collective:
      return collect(index, event);
    case Event::Kind::Recv:
      return receive(index, event);
    case Event::Kind::Send:
      page(index).begin_call(0, 0, 2, 1 << 20);
      ++sent_[size_t(index)][size_t(event.group)];
      end_event(rank);
      return true;
  }
  return false;
}

void SimulatedRanks::advance(int64_t ns) {
  std::vector<int> order;
  for (int rank = 0; rank < size(); ++rank) order.push_back(rank);
  for (const int64_t end_ns = now_ns_ + ns; now_ns_ < end_ns;) {
    now_ns_ += std::min(kTickNs, end_ns - now_ns_);
    std::shuffle(order.begin(), order.end(), random_);
    for (const int index : order) {
      Rank& rank = ranks_[size_t(index)];
      const bool computes = rank.has_begun && rank.until_ns > now_ns_ && !rank.loses_core;
      if (computes || (rank.is_hung && rank.fault == Fault::Spin)) rank.cpu_ns += kTickNs;
      while (run(index)) {
      }
    }
  }
}

void SimulatedRanks::pause(int64_t ns) {
  now_ns_ += ns;
  for (Rank& rank : ranks_) rank.until_ns += ns;
}

std::vector<ObservedRank> SimulatedRanks::observed() const {
  std::vector<ObservedRank> all;
  for (int index = 0; index < size(); ++index) {
    const Rank& rank = ranks_[size_t(index)];
    const bool sleeps = rank.is_waiting || (rank.is_hung && rank.fault != Fault::Spin);
    all.push_back({.process = index + 1,
                   .sample = RankSample::of(page(index)),
                   .is_stopped = rank.fault == Fault::Stopped,
                   .is_runnable = !sleeps,
                   .cpu_ns = rank.cpu_ns});
  }
  return all;
}

// The simulation itself must not hang, and no rank may be a step ahead of another one.
TEST(SimulatedRanks, TrainTogetherInEveryLayout) {
  for (const int tp : {1, 2}) {
    for (const int dp : {1, 2, 3}) {
      for (const int pp : {1, 2, 3}) {
        SimulatedRanks ranks({.tp = tp, .dp = dp, .pp = pp, .step_s = 0.02});
        ranks.advance(2'000'000'000);
        for (int rank = 0; rank < ranks.size(); ++rank) {
          EXPECT_GT(ranks.steps_of(rank), 20);
          EXPECT_LE(std::abs(ranks.steps_of(rank) - ranks.steps_of(0)), 1);
        }
      }
    }
  }
}

}  // namespace trireme
