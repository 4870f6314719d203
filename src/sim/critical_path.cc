#include "sim/critical_path.h"

#include <algorithm>

#include "base/check.h"
#include "program/stage_graph.h"

namespace trireme {
namespace {

// Where the F and the B of each (stage, micro-batch) stand in the list of the rank that runs them.
struct Producers {
  explicit Producers(const Schedule& schedule) : schedule(schedule), graph(schedule) {
    const size_t cells = static_cast<size_t>(graph.num_stages()) * schedule.num_microbatches;
    forward.resize(cells);
    backward.resize(cells);
    for (int rank = 0; rank < schedule.num_ranks; ++rank) {
      const Program& program = schedule.programs[rank];
      for (size_t i = 0; i < program.size(); ++i) note(rank, i, program[i]);
    }
  }

  void note(int rank, size_t index, const Action& action) {
    const auto at = static_cast<uint32_t>(index);
    switch (action.kind) {
      case ActionKind::F:
        forward[cell({rank, action.chunk}, action.microbatch)] = at;
        break;
      case ActionKind::B:
      case ActionKind::BW:
        backward[cell({rank, action.chunk}, action.microbatch)] = at;
        break;
      case ActionKind::FB:
        forward[cell({rank, action.chunk}, action.microbatch)] = at;
        backward[cell({rank, action.chunk_b}, action.microbatch_b)] = at;
        break;
      default:
        break;
    }
  }

  size_t cell(StagePlace place, int microbatch) const {
    return static_cast<size_t>(graph.stage(place.rank, place.chunk)) * schedule.num_microbatches +
           microbatch;
  }

  // Who made the activation or gradient that this action waited for.
  CriticalStep of(const CriticalStep& step, Cause cause) const {
    const Action& action = schedule.programs[step.rank][step.index];
    if (cause == Cause::Activation) {
      const StagePlace from = graph.previous(step.rank, action.chunk);
      return {from.rank, forward[cell(from, action.microbatch)], 0};
    }
    const bool is_pair = action.kind == ActionKind::FB;
    const StagePlace from = graph.next(step.rank, is_pair ? action.chunk_b : action.chunk);
    return {from.rank, backward[cell(from, is_pair ? action.microbatch_b : action.microbatch)], 0};
  }

  // The other side of a blocking transfer that made this side wait.
  CriticalStep other_side(const CriticalStep& step) const {
    const Action& action = schedule.programs[step.rank][step.index];
    const Program& program = schedule.programs[action.peer];
    const bool is_activation =
        action.kind == ActionKind::SendActivation || action.kind == ActionKind::RecvActivation;
    const bool sends =
        action.kind == ActionKind::SendActivation || action.kind == ActionKind::SendGrad;
    const StagePlace place = sends == is_activation ? graph.next(step.rank, action.chunk)
                                                    : graph.previous(step.rank, action.chunk);
    for (size_t i = 0; i < program.size(); ++i) {
      if (program[i].peer == step.rank && program[i].microbatch == action.microbatch &&
          program[i].chunk == place.chunk && program[i].kind != action.kind &&
          is_activation == (program[i].kind == ActionKind::SendActivation ||
                            program[i].kind == ActionKind::RecvActivation)) {
        return {action.peer, i, 0};
      }
    }
    TRIREME_CHECK(false, "a transfer has no other side");
  }

  const Schedule& schedule;
  StageGraph graph;
  std::vector<uint32_t> forward;   // [stage, micro-batch]
  std::vector<uint32_t> backward;  // [stage, micro-batch]
};

}  // namespace

std::vector<CriticalStep> critical_path(const Schedule& schedule, const Simulation& simulation) {
  const Producers producers(schedule);
  CriticalStep step;
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    if (simulation.ranks[rank].last_end_s < simulation.makespan_s) continue;
    step = {rank, schedule.programs[rank].size() - 1, 0};
    break;
  }
  std::vector<CriticalStep> path;
  while (true) {
    const Cause cause = simulation.causes[step.rank][step.index];
    if (cause == Cause::Transfer) {  // both sides share the time: go on from the one that came last
      step = producers.other_side(step);
      continue;
    }
    if (cause == Cause::Nothing || (cause == Cause::Program && step.index == 0)) break;
    CriticalStep before = cause == Cause::Program ? CriticalStep{step.rank, step.index - 1, 0}
                                                  : producers.of(step, cause);
    step.transfer_s = simulation.timeline[step.rank][step.index].start_s -
                      simulation.timeline[before.rank][before.index].end_s;
    path.push_back(step);
    step = before;
  }
  path.push_back(step);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace trireme
