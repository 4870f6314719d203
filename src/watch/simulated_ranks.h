#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "watch/watchdog.h"

namespace trireme {

// For tests: ranks of one host that compute, make collectives and pass activations on, in simulated
// time, and show it in their pages. Any of them can be made to hang or to be slow.
class SimulatedRanks {
 public:
  enum class Fault { None, Spin, Deadlock, BlockedIo, Stopped, Slow };
  struct Options {
    int tp = 1, dp = 2, pp = 1;
    double step_s = 0.05;
    // Share of its compute events in which a rank loses its core for up to `most_stall_s`.
    double stalls = 0.0;
    double most_stall_s = 0.0;
    uint64_t seed = 1;
  };
  explicit SimulatedRanks(const Options& options);

  int size() const { return int(ranks_.size()); }
  int64_t steps_of(int rank) const { return ranks_[size_t(rank)].steps; }
  void inject(Fault fault, int rank);
  // Lets the time go on, and the ranks with it.
  void advance(int64_t ns);
  // The whole host stands still: time goes on, but no rank does.
  void pause(int64_t ns);
  int64_t now_ns() const { return now_ns_; }
  std::vector<ObservedRank> observed() const;

 private:
  struct Event {
    enum class Kind { Compute, Collective, Send, Recv };
    Kind kind = Kind::Compute;
    int group = 0;  // or the peer of a Send or Recv
  };
  struct Rank {
    std::vector<Event> program;
    size_t next = 0;
    bool has_begun = false;   // the next event
    int64_t until_ns = 0;     // of a Compute event
    int64_t computed_ns = 0;  // of this step
    int64_t step_ns = 0;
    int64_t arrived_ns = 0;  // at a call that is not complete
    bool is_waiting = false;
    bool is_hung = false;
    bool loses_core = false;
    Fault fault = Fault::None;
    int64_t steps = 0;
    int64_t cpu_ns = 0;
  };
  void make_programs(const Options& options);
  int add_group(const std::vector<int>& members);
  bool run(int rank);  // one event; false: it goes no farther now
  bool compute(int rank);
  bool collect(int rank, const Event& event);
  bool receive(int rank, const Event& event);
  void wait(int rank, int peer, int group, uint64_t sequence);
  void end_event(Rank& rank);
  ProgressPage& page(int rank) const { return pages_[rank]; }

  Options options_;
  std::mt19937_64 random_;
  std::unique_ptr<ProgressPage[]> pages_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<int>> groups_;               // members
  std::vector<std::vector<uint64_t>> issued_;          // [group][rank]
  std::vector<std::vector<int64_t>> sent_, received_;  // [from][to]
  int64_t now_ns_ = 1'000'000'000;
};

}  // namespace trireme
