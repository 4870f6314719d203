#include "sim/simulate_offload.h"

#include <algorithm>
#include <map>
#include <tuple>

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
      if (last != program.rend() && &action == &*last) wait_until(file_free_s_);
    }
    times_.makespan_s = clock_s_ - begin_s;
    return times_;
  }

 private:
  using Place = std::tuple<bool, int, int>;  // whether it is a piece, chunk, piece or first unit

  static Place place_of(const Action& action) {
    const bool is_piece = is_of_piece(action.kind);
    return {is_piece, action.chunk, is_piece ? action.microbatch : action.first_unit};
  }

  void follow(const Action& action) {
    switch (action.kind) {
      case ActionKind::FetchUnits:
      case ActionKind::OffloadUnits:
      case ActionKind::FetchPiece:
      case ActionKind::OffloadPiece: {
        const double seconds = costs_.file_s(action);
        file_free_s_ = std::max(file_free_s_, clock_s_) + seconds;
        times_.file_s += seconds;
        done_s_[place_of(action)] = file_free_s_;
        return;
      }
      case ActionKind::StepPiece:
        wait_for(place_of(action));
        break;
      default:
        wait_for_units(action);
    }
    clock_s_ += costs_.compute_s(action);
  }

  void wait_for_units(const Action& action) {
    if (action.chunk < 0) return;
    const int end = action.num_units == 0 ? kMostUnits : action.first_unit + action.num_units;
    const auto first = done_s_.lower_bound({false, action.chunk, action.first_unit});
    const auto last = done_s_.lower_bound({false, action.chunk, end});
    for (auto unit = first; unit != last; ++unit) wait_until(unit->second);
  }
  void wait_for(const Place& place) {
    const auto found = done_s_.find(place);
    if (found != done_s_.end()) wait_until(found->second);
  }
  void wait_until(double at_s) {
    if (at_s <= clock_s_) return;
    times_.exposed_s += at_s - clock_s_;
    clock_s_ = at_s;
  }

  static constexpr int kMostUnits = 1 << 30;
  const OffloadCosts& costs_;
  double clock_s_ = 0;
  double file_free_s_ = 0;
  std::map<Place, double> done_s_;  // of the last request
  OffloadTimes times_;
};

}  // namespace

OffloadTimes simulate_offload(const Program& program, const OffloadCosts& costs) {
  OffloadSimulator simulator(costs);
  simulator.run(program);
  return simulator.run(program);
}

}  // namespace trireme
