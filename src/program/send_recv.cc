#include "program/send_recv.h"

#include <algorithm>

#include "base/check.h"
#include "program/replay.h"

namespace trireme {
namespace {

struct Ended {
  double time = 0;
  uint32_t visit = 0;  // with equal times, an action visited earlier may feed one visited later
  int32_t rank = 0;
  uint32_t index = 0;
};

// Assigns an end time to every action.
class EndTimes {
 public:
  EndTimes(const Schedule& schedule, const StageGraph& graph, const TransferOrder& times)
      : schedule_(schedule), graph_(graph), times_(times), clock_(schedule.num_ranks, 0.0) {
    const size_t cells = static_cast<size_t>(graph.num_stages()) * schedule.num_microbatches;
    forward_at_.assign(cells, 0.0);
    backward_at_.assign(cells, 0.0);
  }

  void action(int rank, size_t index) {
    const Action& action = schedule_.programs[rank][index];
    const bool is_pair = action.kind == ActionKind::FB;
    const bool has_f = action.kind == ActionKind::F || is_pair;
    const bool has_b = action.kind == ActionKind::B || action.kind == ActionKind::BW || is_pair;
    const int chunk_b = is_pair ? action.chunk_b : action.chunk;
    const int k_b = is_pair ? action.microbatch_b : action.microbatch;
    double start = clock_[rank];
    if (has_f) {
      const StagePlace from = graph_.previous(rank, action.chunk);
      start = std::max(start, arrival(forward_at_, rank, from, action.microbatch));
    }
    if (has_b) {
      const StagePlace from = graph_.next(rank, chunk_b);
      start = std::max(start, arrival(backward_at_, rank, from, k_b));
    }
    const bool has_w = action.kind == ActionKind::W || action.kind == ActionKind::BW || is_pair;
    const double end =
        start + (has_f ? times_.f : 0) + (has_b ? times_.b : 0) + (has_w ? times_.w : 0);
    clock_[rank] = end;
    if (has_f) at(forward_at_, {rank, action.chunk}, action.microbatch) = end;
    if (has_b) at(backward_at_, {rank, chunk_b}, k_b) = end;
    ended_.push_back(
        {end, static_cast<uint32_t>(ended_.size()), rank, static_cast<uint32_t>(index)});
  }
  void transfer(int, size_t, int, size_t) {}

  std::vector<Ended> in_order() && {
    std::sort(ended_.begin(), ended_.end(), [](const Ended& a, const Ended& b) {
      return a.time != b.time ? a.time < b.time : a.visit < b.visit;
    });
    return std::move(ended_);
  }

 private:
  double arrival(std::vector<double>& made_at, int rank, StagePlace from, int microbatch) {
    if (!from.exists()) return 0;
    return at(made_at, from, microbatch) + (from.rank == rank ? 0 : times_.comm);
  }
  double& at(std::vector<double>& times, StagePlace place, int microbatch) {
    const int stage = graph_.stage(place.rank, place.chunk);
    return times[static_cast<size_t>(stage) * schedule_.num_microbatches + microbatch];
  }

  const Schedule& schedule_;
  const StageGraph& graph_;
  TransferOrder times_;
  std::vector<double> clock_;        // [rank]
  std::vector<double> forward_at_;   // [stage, micro-batch]
  std::vector<double> backward_at_;  // [stage, micro-batch]
  std::vector<Ended> ended_;
};

}  // namespace

Schedule add_send_recv(const Schedule& schedule, const TransferOrder& times) {
  const StageGraph graph(schedule);
  EndTimes end_times(schedule, graph, times);
  const Replayed replayed =
      Replay<EndTimes>(schedule, graph, TransferRule::Implicit, end_times).run();
  TRIREME_CHECK(replayed.complete, "add_send_recv needs a schedule that passes check()");
  Schedule result = schedule;
  for (Program& program : result.programs) program.clear();
  const auto append_transfer = [&](ActionKind send, ActionKind recv, StagePlace from, StagePlace to,
                                   int microbatch) {
    if (!to.exists() || to.rank == from.rank) return;
    const auto half = [&](ActionKind kind, StagePlace place, int peer) {
      return Action{.kind = kind,
                    .chunk = static_cast<int16_t>(place.chunk),
                    .microbatch = microbatch,
                    .peer = static_cast<int16_t>(peer)};
    };
    result.programs[from.rank].push_back(half(send, from, to.rank));
    result.programs[to.rank].push_back(half(recv, to, from.rank));
  };
  for (const Ended& ended : std::move(end_times).in_order()) {
    const int rank = ended.rank;
    const Action& action = schedule.programs[rank][ended.index];
    result.programs[rank].push_back(action);
    const bool is_pair = action.kind == ActionKind::FB;
    if (action.kind == ActionKind::F || is_pair) {
      append_transfer(ActionKind::SendActivation, ActionKind::RecvActivation, {rank, action.chunk},
                      graph.next(rank, action.chunk), action.microbatch);
    }
    if (action.kind == ActionKind::B || action.kind == ActionKind::BW || is_pair) {
      const int chunk_b = is_pair ? action.chunk_b : action.chunk;
      append_transfer(ActionKind::SendGrad, ActionKind::RecvGrad, {rank, chunk_b},
                      graph.previous(rank, chunk_b),
                      is_pair ? action.microbatch_b : action.microbatch);
    }
  }
  return result;
}

}  // namespace trireme
