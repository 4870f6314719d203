#include "sim/simulate_overlap.h"

#include <algorithm>
#include <deque>

namespace trireme {
namespace {

class OverlapSimulator {
 public:
  OverlapSimulator(const Program& program, const DataParallelShape& shape,
                   const OverlapCosts& costs)
      : program_(program), shape_(shape), costs_(costs) {
    for (const int units : shape.num_units) gathered_s_.emplace_back(size_t(units), 0.0);
  }

  Overlap run() && {
    for (const Action& action : program_) {
      const double begin_s = clock_s_;
      follow(action);
      result_.timeline.push_back({begin_s, clock_s_});
    }
    wait_until(link_free_s_);
    result_.makespan_s = clock_s_;
    return std::move(result_);
  }

 private:
  void follow(const Action& action) {
    switch (action.kind) {
      case ActionKind::Unshard:
        for_each_unit(action, [&, done_s = collect(action)](double& there_s) { there_s = done_s; });
        return;
      case ActionKind::ReduceGrad:
        return reduce(action);
      case ActionKind::JoinTiedTable:
        return wait_for_reduces(0);
      case ActionKind::JoinDirections:
      case ActionKind::Step:
      case ActionKind::StepPiece:
        wait_for_reduces(0);
        return compute(action);
      case ActionKind::SumGrad:
        return compute(action);
      default:
        if (!computes(action.kind)) return;
        for_each_unit(action, [&](double& there_s) { wait_until(there_s); });
        return compute(action);
    }
  }

  template <typename Visit>
  void for_each_unit(const Action& action, Visit&& visit) {
    std::vector<double>& units = gathered_s_[size_t(action.chunk)];
    const int end =
        action.num_units == 0 ? int(units.size()) : action.first_unit + action.num_units;
    for (int unit = action.first_unit; unit < end; ++unit) visit(units[size_t(unit)]);
  }

  double collect(const Action& action) {
    const double seconds = costs_.collective_s(action);
    link_free_s_ = std::max(link_free_s_, clock_s_) + seconds;
    result_.link_s += seconds;
    return link_free_s_;
  }

  void reduce(const Action& action) {
    reduces_.push_back(collect(action));
    if (!shape_.shards_grads()) return;
    wait_for_reduces(action.first_unit == 0 ? 0 : size_t(shape_.num_unit_slots) - 1);
  }

  void wait_for_reduces(size_t most) {
    while (reduces_.size() > most) {
      wait_until(reduces_.front());
      reduces_.pop_front();
    }
  }

  void wait_until(double at_s) {
    if (at_s <= clock_s_) return;
    result_.exposed_s += at_s - clock_s_;
    clock_s_ = at_s;
  }

  void compute(const Action& action) {
    const double seconds = costs_.compute_s(action);
    const double beside_s = std::max(0.0, link_free_s_ - clock_s_);
    const double slowed_s = slowdown_s(seconds, beside_s, costs_.taken_share);
    clock_s_ += seconds + slowed_s;
    result_.compute_s += seconds;
    result_.exposed_s += slowed_s;
  }

  const Program& program_;
  const DataParallelShape& shape_;
  const OverlapCosts& costs_;
  double clock_s_ = 0;
  double link_free_s_ = 0;
  std::vector<std::vector<double>> gathered_s_;  // [chunk][unit] when its parameters are gathered
  std::deque<double> reduces_;                   // end times of the reductions in flight
  Overlap result_;
};

}  // namespace

double slowdown_s(double compute_s, double transfer_s, double taken_share) {
  const double slow_to_the_end_s = compute_s * taken_share / (1.0 - taken_share);
  return std::min(taken_share * transfer_s, slow_to_the_end_s);
}

Overlap simulate_overlap(const Program& program, const DataParallelShape& shape,
                         const OverlapCosts& costs) {
  return OverlapSimulator(program, shape, costs).run();
}

}  // namespace trireme
