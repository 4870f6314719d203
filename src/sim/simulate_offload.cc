#include "sim/simulate_offload.h"

#include <algorithm>
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
      if (last != program.rend() && &action == &*last) wait_until(file_free_s_);
    }
    times_.makespan_s = clock_s_ - begin_s;
    return times_;
  }

 private:
  // When the last request for the units or the piece of an action is done.
  double& done_s(const Action& action) {
    const bool is_piece = is_of_piece(action.kind);
    std::vector<std::vector<double>>& of_chunks = is_piece ? pieces_done_s_ : units_done_s_;
    const size_t chunk = size_t(action.chunk);
    const size_t index = size_t(is_piece ? action.microbatch : action.first_unit);
    if (of_chunks.size() <= chunk) of_chunks.resize(chunk + 1);
    if (of_chunks[chunk].size() <= index) of_chunks[chunk].resize(index + 1, 0.0);
    return of_chunks[chunk][index];
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
        done_s(action) = file_free_s_;
        return;
      }
      case ActionKind::StepPiece:
        wait_until(done_s(action));
        break;
      default:
        wait_for_units(action);
    }
    clock_s_ += costs_.compute_s(action);
  }

  void wait_for_units(const Action& action) {
    if (action.chunk < 0 || size_t(action.chunk) >= units_done_s_.size()) return;
    const std::vector<double>& units = units_done_s_[size_t(action.chunk)];
    const size_t first = size_t(action.first_unit);
    const size_t end = action.num_units == 0
                           ? units.size()
                           : std::min(units.size(), first + size_t(action.num_units));
    for (size_t unit = first; unit < end; ++unit) wait_until(units[unit]);
  }
  void wait_until(double at_s) {
    if (at_s <= clock_s_) return;
    times_.exposed_s += at_s - clock_s_;
    clock_s_ = at_s;
  }

  const OffloadCosts& costs_;
  double clock_s_ = 0;
  double file_free_s_ = 0;
  std::vector<std::vector<double>> units_done_s_;   // [chunk][first unit]
  std::vector<std::vector<double>> pieces_done_s_;  // [chunk][piece]
  OffloadTimes times_;
};

}  // namespace

OffloadTimes simulate_offload(const Program& program, const OffloadCosts& costs) {
  OffloadSimulator simulator(costs);
  simulator.run(program);
  return simulator.run(program);
}

}  // namespace trireme
