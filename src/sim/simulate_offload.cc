#include "sim/simulate_offload.h"

#include <algorithm>
#include <deque>
#include <vector>

namespace trireme {
namespace {

class OffloadSimulator {
 public:
  explicit OffloadSimulator(const OffloadCosts& costs) : costs_(costs) {}

  // Another step, behind those that have run.
  OffloadTimes run(const Program& program) {
    times_ = {};
    const double begin_s = clock_s_;
    const auto last = std::find_if(program.rbegin(), program.rend(), [](const Action& action) {
      return action.kind == ActionKind::OffloadPiece;
    });
    for (const Action& action : program) {
      follow(action);
      // The staging buffers are given back once everything has left them.
      if (last != program.rend() && &action == &*last) wait_for(num_started_ - 1);
    }
    times_.makespan_s = clock_s_ - begin_s;
    return times_;
  }

 private:
  // The number of the last request for the units or the piece of an action; -1: none.
  int& request_of(const Action& action) {
    const bool is_piece = is_of_piece(action.kind);
    std::vector<std::vector<int>>& of_chunks = is_piece ? pieces_ : units_;
    const size_t chunk = size_t(action.chunk);
    const size_t index = size_t(is_piece ? action.microbatch : action.first_unit);
    if (of_chunks.size() <= chunk) of_chunks.resize(chunk + 1);
    if (of_chunks[chunk].size() <= index) of_chunks[chunk].resize(index + 1, -1);
    return of_chunks[chunk][index];
  }

  void follow(const Action& action) {
    switch (action.kind) {
      case ActionKind::FetchUnits:
      case ActionKind::OffloadUnits:
      case ActionKind::FetchPiece:
      case ActionKind::OffloadPiece:
        queue_.push_back(costs_.file_s(action));
        times_.file_s += queue_.back();
        request_of(action) = num_started_++;
        return;
      case ActionKind::StepPiece:
        wait_for(request_of(action));
        break;
      default:
        wait_for_units(action);
    }
    compute(costs_.compute_s(action));
  }

  // Both go on more slowly until one of them has ended.
  void compute(double seconds) {
    const double speed = 1.0 - costs_.shared;
    while (seconds > 0.0 && !queue_.empty()) {
      const double done_s = std::min(seconds, queue_.front());
      clock_s_ += done_s / speed;
      times_.slowed_s += done_s / speed - done_s;
      seconds -= done_s;
      queue_.front() -= done_s;
      if (queue_.front() <= 0.0) queue_.pop_front();
    }
    clock_s_ += seconds;
  }

  void wait_for_units(const Action& action) {
    if (action.chunk < 0 || size_t(action.chunk) >= units_.size()) return;
    const std::vector<int>& units = units_[size_t(action.chunk)];
    const size_t first = size_t(action.first_unit);
    const size_t end = action.num_units == 0
                           ? units.size()
                           : std::min(units.size(), first + size_t(action.num_units));
    for (size_t unit = first; unit < end; ++unit) wait_for(units[unit]);
  }
  // Requests are served in their order.
  void wait_for(int request) {
    while (num_started_ - int(queue_.size()) <= request) {
      clock_s_ += queue_.front();
      times_.waited_s += queue_.front();
      queue_.pop_front();
    }
  }

  const OffloadCosts& costs_;
  double clock_s_ = 0;
  std::deque<double> queue_;  // seconds that are left of every request that is not done
  int num_started_ = 0;
  std::vector<std::vector<int>> units_;   // [chunk][first unit], the number of a request
  std::vector<std::vector<int>> pieces_;  // [chunk][piece]
  OffloadTimes times_;
};

}  // namespace

OffloadTimes simulate_offload(const Program& program, const OffloadCosts& costs) {
  OffloadSimulator simulator(costs);
  simulator.run(program);
  return simulator.run(program);
}

}  // namespace trireme
