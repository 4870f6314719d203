#include "sim/greedy_schedule.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "program/generators.h"
#include "program/stage_graph.h"

namespace trireme {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Fraction of an average action, so that rounding cannot hide a ready input.
constexpr double kEpsilon = 1e-9;

struct RankState {
  double clock_s = 0;
  double first_s = -1;
  double live = 0;
  double peak_live = 0;
  std::vector<int> num_f, num_b, num_w;  // [chunk]
};

class Greedy {
 public:
  Greedy(const ScheduleShape& shape, StagePlacement placement, const Costs& costs,
         const GreedyPolicy& policy)
      : m_(shape.num_microbatches),
        v_(shape.num_chunks),
        policy_(policy),
        held_for_w_(costs.held_for_w) {
    run_.schedule = empty_schedule("auto", shape, placement);
    const StageGraph graph(run_.schedule);
    ranks_.resize(shape.num_ranks);
    for (RankState& rank : ranks_) rank.num_f = rank.num_b = rank.num_w = std::vector<int>(v_, 0);
    chunks_.resize(static_cast<size_t>(shape.num_ranks) * v_);
    double total_s = 0;
    for (int rank = 0; rank < shape.num_ranks; ++rank) {
      for (int chunk = 0; chunk < v_; ++chunk) {
        Chunk& here = at(rank, chunk);
        const int stage = graph.stage(rank, chunk);
        here.times = of_stage(costs.stages, stage);
        here.next = graph.next(rank, chunk);
        here.previous = graph.previous(rank, chunk);
        here.delay_to_next_s = delay(costs, rank, here.next);
        here.delay_to_previous_s = delay(costs, rank, here.previous);
        here.f_ready_s.assign(m_, here.previous.exists() ? kNever : 0.0);
        here.b_ready_s.assign(m_, kNever);
        total_s += here.times.f_s + here.times.b_s + here.times.w_s;
      }
    }
    epsilon_s_ = kEpsilon * total_s / static_cast<double>(3 * chunks_.size());
  }

  GreedyRun run() {
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) wake(rank, 0);
    while (!queue_.empty()) {
      const auto [time, rank] = queue_.top();
      queue_.pop();
      if (time + epsilon_s_ >= ranks_[rank].clock_s)
        decide(rank, std::max(time, ranks_[rank].clock_s));
    }
    run_.is_complete = true;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const RankState& here = ranks_[rank];
      const size_t actions = size_t{3} * m_ * v_;
      run_.is_complete = run_.is_complete && run_.schedule.programs[rank].size() == actions;
      run_.makespan_s = std::max(run_.makespan_s, here.clock_s);
      run_.longest_span_s = std::max(run_.longest_span_s, here.clock_s - here.first_s);
      run_.peak_live = std::max(run_.peak_live, here.peak_live);
    }
    return std::move(run_);
  }

 private:
  struct Chunk {
    StageTimes times;
    StagePlace next, previous;
    double delay_to_next_s = 0;
    double delay_to_previous_s = 0;
    std::vector<double> f_ready_s;  // [micro-batch]
    std::vector<double> b_ready_s;  // [micro-batch]
  };

  static double delay(const Costs& costs, int rank, StagePlace to) {
    if (!to.exists() || to.rank == rank) return 0;
    const Link link = costs.link_of ? costs.link_of(rank, to.rank) : costs.link;
    return link.latency_s + (link.bytes_per_s > 0 ? costs.message_bytes / link.bytes_per_s : 0);
  }

  Chunk& at(int rank, int chunk) { return chunks_[static_cast<size_t>(rank) * v_ + chunk]; }
  void wake(int rank, double time) { queue_.emplace(time, rank); }

  // True if there is memory for this forward and for one through every later chunk of the rank.
  // Without that no backward could ever free memory.
  bool has_room(const RankState& rank, int chunk) const {
    return rank.live + (v_ - chunk) <= policy_.max_live + 1e-9;
  }

  void decide(int rank, double now) {
    RankState& here = ranks_[rank];
    double next_input = kNever;
    int f_chunk = -1;
    int b_chunk = -1;
    bool is_short_of_memory = false;
    // Later chunks first, because they are closer to the end.
    for (int chunk = v_ - 1; chunk >= 0; --chunk) {
      const int f = here.num_f[chunk];
      const int b = here.num_b[chunk];
      if (b < f) {
        const double ready = at(rank, chunk).b_ready_s[b];
        if (ready <= now + epsilon_s_ && b_chunk < 0) b_chunk = chunk;
        next_input = std::min(next_input, ready);
      }
      const bool may_run_ahead = chunk > 0 || f - b < policy_.max_ahead[rank];
      if (f == m_ || !may_run_ahead) continue;
      const double ready = at(rank, chunk).f_ready_s[f];
      if (!has_room(here, chunk)) {
        is_short_of_memory = is_short_of_memory || ready <= now + epsilon_s_;
        continue;
      }
      if (ready <= now + epsilon_s_ && f_chunk < 0) f_chunk = chunk;
      next_input = std::min(next_input, ready);
    }
    if (f_chunk >= 0 && (b_chunk < 0 || policy_.prefer_f)) return run_f(rank, f_chunk, now);
    if (b_chunk >= 0) return run_b(rank, b_chunk, now);
    for (int chunk = v_ - 1; chunk >= 0; --chunk) {
      if (here.num_w[chunk] == here.num_b[chunk]) continue;
      const double needed = policy_.fit_w * at(rank, chunk).times.w_s;
      if (is_short_of_memory || next_input - now >= needed - epsilon_s_) {
        return run_w(rank, chunk, now);
      }
    }
    if (next_input < kNever) wake(rank, next_input);
  }

  void advance(int rank, Action action, double now, double seconds) {
    RankState& here = ranks_[rank];
    if (here.first_s < 0) here.first_s = now;
    here.clock_s = now + seconds;
    run_.schedule.programs[rank].push_back(action);
    wake(rank, here.clock_s);
  }

  void run_f(int rank, int chunk, double now) {
    Chunk& here = at(rank, chunk);
    RankState& state = ranks_[rank];
    const int k = state.num_f[chunk]++;
    state.live += 1;
    state.peak_live = std::max(state.peak_live, state.live);
    advance(rank, forward(chunk, k), now, here.times.f_s);
    const double end = state.clock_s;
    if (!here.next.exists()) {
      here.b_ready_s[k] = end;
      return;
    }
    const double ready = end + here.delay_to_next_s;
    at(here.next.rank, here.next.chunk).f_ready_s[k] = ready;
    wake(here.next.rank, ready);
  }

  void run_b(int rank, int chunk, double now) {
    Chunk& here = at(rank, chunk);
    RankState& state = ranks_[rank];
    const int k = state.num_b[chunk]++;
    state.live -= 1 - held_for_w_;
    advance(rank, backward_input(chunk, k), now, here.times.b_s);
    if (!here.previous.exists()) return;
    const double ready = state.clock_s + here.delay_to_previous_s;
    at(here.previous.rank, here.previous.chunk).b_ready_s[k] = ready;
    wake(here.previous.rank, ready);
  }

  void run_w(int rank, int chunk, double now) {
    RankState& state = ranks_[rank];
    const int k = state.num_w[chunk]++;
    state.live -= held_for_w_;
    advance(rank, backward_weight(chunk, k), now, at(rank, chunk).times.w_s);
  }

  int m_;
  int v_;
  const GreedyPolicy& policy_;
  double held_for_w_;
  double epsilon_s_ = 0;
  std::vector<RankState> ranks_;
  std::vector<Chunk> chunks_;  // [rank, chunk]
  using Wake = std::pair<double, int>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> queue_;
  GreedyRun run_;
};

}  // namespace

GreedyRun greedy_schedule(const ScheduleShape& shape, StagePlacement placement, const Costs& costs,
                          const GreedyPolicy& policy) {
  return Greedy(shape, placement, costs, policy).run();
}

}  // namespace trireme
