#include "sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "program/replay.h"
#include "program/stage_graph.h"
#include "sim/stage_links.h"

namespace trireme {
namespace {

// A message into one (stage, micro-batch).
struct Message {
  double made_s = 0;    // when its content was computed
  double sent_s = -1;   // when Send was reached; with implicit transfers made_s
  double taken_s = -1;  // when Recv was reached
  double arrived_s = 0;
};

class Simulator {
 public:
  Simulator(const Schedule& schedule, const StageGraph& graph, const Costs& costs,
            TransferRule rule)
      : schedule_(schedule),
        graph_(graph),
        costs_(costs),
        rule_(rule),
        links_(schedule, graph, costs) {
    const size_t cells = static_cast<size_t>(graph.num_stages()) * schedule.num_microbatches;
    activations_.resize(cells);
    grads_.resize(cells);
    const size_t p = schedule.programs.size();
    clock_.resize(p);
    live_.resize(p);
    result_.ranks.resize(p);
    result_.timeline.resize(p);
    for (size_t rank = 0; rank < p; ++rank) {
      result_.timeline[rank].resize(schedule.programs[rank].size());
    }
  }

  // Called by replay.
  void action(int rank, size_t index) {
    const Action& action = schedule_.programs[rank][index];
    switch (action.kind) {
      case ActionKind::SendActivation:
      case ActionKind::SendGrad:
        post_send(rank, index, action);
        return;
      case ActionKind::RecvActivation:
      case ActionKind::RecvGrad:
        post_recv(rank, index, action);
        return;
      default:
        compute(rank, index, action);
    }
  }

  void transfer(int from, size_t send, int to, size_t recv) {
    const Action& action = schedule_.programs[from][send];
    const double start = std::max(clock_[from], clock_[to]);
    const bool is_activation = action.kind == ActionKind::SendActivation;
    Message& message = message_into(from, action.chunk, action.microbatch, is_activation);
    message.sent_s = message.taken_s = start;
    message.arrived_s = links_.deliver(from, action.chunk, is_activation, start);
    const double took = message.arrived_s - start;
    for (const auto& [rank, index] : {std::pair{from, send}, std::pair{to, recv}}) {
      record(rank, index, start, message.arrived_s);
      result_.ranks[rank].exposed_comm_s += took;
      clock_[rank] = message.arrived_s;
    }
  }

  Simulation finish() && {
    double work = 0;
    for (size_t rank = 0; rank < result_.ranks.size(); ++rank) {
      RankSimulation& here = result_.ranks[rank];
      work += here.busy_s;
      result_.makespan_s = std::max(result_.makespan_s, here.last_end_s);
      result_.longest_span_s =
          std::max(result_.longest_span_s, here.last_end_s - here.first_start_s);
      here.peak_live_w = live_[rank].peak_w;
      here.peak_live_b = live_[rank].peak_b;
      here.peak_bytes = live_[rank].peak_bytes;
    }
    work /= static_cast<double>(result_.ranks.size());
    const double makespan = result_.makespan_s;
    const double span = result_.longest_span_s;
    if (work > 0) {
      result_.bubbles = {(makespan - work) / work, (makespan - work) / makespan,
                         (span - work) / span};
    }
    result_.links = links_.used();
    return std::move(result_);
  }

 private:
  struct Live {
    int w = 0;
    int b = 0;
    int peak_w = 0;
    int peak_b = 0;
    double bytes = 0;
    double peak_bytes = 0;
  };

  // When an action starts as its inputs arrive, and when all inputs had been computed.
  struct Start {
    double at_s = 0;
    double made_s = 0;
  };

  Message& message_at(int rank, int chunk, int microbatch, bool is_activation) {
    const size_t cell =
        static_cast<size_t>(graph_.stage(rank, chunk)) * schedule_.num_microbatches + microbatch;
    return is_activation ? activations_[cell] : grads_[cell];
  }
  // Returns the message that this (rank, chunk) sends, from the view of its receiver.
  Message& message_into(int rank, int chunk, int microbatch, bool is_activation) {
    const StagePlace to = is_activation ? graph_.next(rank, chunk) : graph_.previous(rank, chunk);
    return message_at(to.rank, to.chunk, microbatch, is_activation);
  }

  void post_send(int rank, size_t index, const Action& action) {
    const bool is_activation = action.kind == ActionKind::SendActivation;
    Message& message = message_into(rank, action.chunk, action.microbatch, is_activation);
    message.sent_s = clock_[rank];
    if (message.taken_s >= 0) {
      message.arrived_s = links_.deliver(rank, action.chunk, is_activation,
                                         std::max(message.sent_s, message.taken_s));
    }
    record(rank, index, clock_[rank], clock_[rank]);
  }

  void post_recv(int rank, size_t index, const Action& action) {
    const bool is_activation = action.kind == ActionKind::RecvActivation;
    Message& message = message_at(rank, action.chunk, action.microbatch, is_activation);
    message.taken_s = clock_[rank];
    if (message.sent_s >= 0) {
      const StagePlace from =
          is_activation ? graph_.previous(rank, action.chunk) : graph_.next(rank, action.chunk);
      message.arrived_s = links_.deliver(from.rank, from.chunk, is_activation,
                                         std::max(message.sent_s, message.taken_s));
    }
    record(rank, index, clock_[rank], clock_[rank]);
  }

  void wait_for(const Message& message, Start& start) const {
    start.made_s = std::max(start.made_s, message.made_s);
    start.at_s = std::max(start.at_s, message.arrived_s);
  }

  // Passes a result to the neighbouring stage: at once on the same rank, else over the link.
  void hand_over(int rank, int chunk, int microbatch, bool is_activation, double at_s) {
    const StagePlace to = is_activation ? graph_.next(rank, chunk) : graph_.previous(rank, chunk);
    if (!to.exists()) return;
    Message& message = message_at(to.rank, to.chunk, microbatch, is_activation);
    message.made_s = at_s;
    if (to.rank == rank) {
      message.arrived_s = at_s;
    } else if (rule_ == TransferRule::Implicit) {
      message.arrived_s = links_.deliver(rank, chunk, is_activation, at_s);
    }
  }

  void compute(int rank, size_t index, const Action& action) {
    const bool is_pair = action.kind == ActionKind::FB;
    const bool has_f = action.kind == ActionKind::F || is_pair;
    const bool has_b = action.kind == ActionKind::B || action.kind == ActionKind::BW || is_pair;
    const bool has_w = action.kind == ActionKind::W || action.kind == ActionKind::BW || is_pair;
    const int chunk_b = is_pair ? action.chunk_b : action.chunk;
    const int k_b = is_pair ? action.microbatch_b : action.microbatch;
    Start start{clock_[rank], clock_[rank]};
    if (has_f) wait_for(message_at(rank, action.chunk, action.microbatch, true), start);
    if (has_b) wait_for(message_at(rank, chunk_b, k_b, false), start);
    const double seconds =
        duration(rank, action) + (costs_.extra_s ? costs_.extra_s(rank, index) : 0.0);
    const double end = start.at_s + seconds;
    RankSimulation& here = result_.ranks[rank];
    here.exposed_comm_s += start.at_s - std::max(start.made_s, clock_[rank]);
    here.busy_s += seconds;
    clock_[rank] = end;
    record(rank, index, start.at_s, end);
    if (has_f) {
      hold(rank, action.chunk);
      hand_over(rank, action.chunk, action.microbatch, true, end);
    }
    if (has_b) hand_over(rank, chunk_b, k_b, false, end);
    if (has_b) release_at_b(rank, chunk_b);
    if (has_w) release_at_w(rank, chunk_b);
  }

  double duration(int rank, const Action& action) const {
    const auto times = [&](int chunk) -> const StageTimes& {
      return of_stage(costs_.stages, graph_.stage(rank, chunk));
    };
    if (const std::optional<double> seconds = compute_s(action, times)) return *seconds;
    return costs_.other_s ? costs_.other_s(rank, action) : 0.0;
  }

  void record(int rank, size_t index, double start_s, double end_s) {
    result_.timeline[rank][index] = {start_s, end_s};
    RankSimulation& here = result_.ranks[rank];
    if (index == 0) here.first_start_s = start_s;
    here.last_end_s = end_s;
  }

  void hold(int rank, int chunk) {
    Live& live = live_[rank];
    live.peak_w = std::max(live.peak_w, ++live.w);
    live.peak_b = std::max(live.peak_b, ++live.b);
    live.bytes += of_stage(costs_.saved_bytes, graph_.stage(rank, chunk));
    live.peak_bytes = std::max(live.peak_bytes, live.bytes);
  }
  void release_at_b(int rank, int chunk) {
    --live_[rank].b;
    live_[rank].bytes -=
        (1 - costs_.held_for_w) * of_stage(costs_.saved_bytes, graph_.stage(rank, chunk));
  }
  void release_at_w(int rank, int chunk) {
    --live_[rank].w;
    live_[rank].bytes -=
        costs_.held_for_w * of_stage(costs_.saved_bytes, graph_.stage(rank, chunk));
  }

  const Schedule& schedule_;
  const StageGraph& graph_;
  const Costs& costs_;
  TransferRule rule_;
  StageLinks links_;
  std::vector<Message> activations_;  // [stage, micro-batch] into the stage
  std::vector<Message> grads_;
  std::vector<double> clock_;  // [rank]
  std::vector<Live> live_;     // [rank]
  Simulation result_;
};

TransferRule rule_for(const Schedule& schedule, const Costs& costs) {
  for (const Program& program : schedule.programs) {
    for (const Action& action : program) {
      if (!is_transfer(action.kind)) continue;
      return costs.blocking ? TransferRule::Rendezvous : TransferRule::Posted;
    }
  }
  return TransferRule::Implicit;
}

}  // namespace

Status check_costs(int num_stages, const Costs& costs) {
  const size_t stages = static_cast<size_t>(num_stages);
  const auto fits = [&](size_t count, std::string_view what) -> Status {
    if (count == 1 || count == stages) return Done{};
    return Error{ErrorKind::Usage, fmt::format("{} {} for {} stages: give one, or one per stage",
                                               count, what, stages)};
  };
  TRIREME_TRY_DONE(fits(costs.stages.size(), "times"));
  TRIREME_TRY_DONE(fits(costs.saved_bytes.size(), "saved activations"));
  for (const StageTimes& times : costs.stages) {
    if (times.f_s >= 0 && times.b_s >= 0 && times.w_s >= 0) continue;
    return Error{ErrorKind::Usage, fmt::format("times F = {}, B = {}, W = {} must not be negative",
                                               times.f_s, times.b_s, times.w_s)};
  }
  if (costs.link.latency_s < 0 || costs.link.bytes_per_s < 0) {
    return Error{ErrorKind::Usage, "a link's latency and bandwidth must not be negative"};
  }
  return Done{};
}

Result<Simulation> simulate(const Schedule& schedule, const Costs& costs) {
  TRIREME_TRY_DONE(check_costs(num_stages(schedule), costs));
  const StageGraph graph(schedule);
  const TransferRule rule = rule_for(schedule, costs);
  Simulator simulator(schedule, graph, costs, rule);
  const Replayed replayed = Replay<Simulator>(schedule, graph, rule, simulator).run();
  if (!replayed.complete) {
    return Error{ErrorKind::Infeasible, "deadlock: " + describe_stuck(schedule, replayed)};
  }
  return std::move(simulator).finish();
}

}  // namespace trireme
