#include "program/check_transfers.h"

#include <fmt/format.h>

#include <utility>

#include "program/check_order.h"
#include "program/replay.h"
#include "program/stage_graph.h"

namespace trireme {
namespace {

// Positions of the transfers of one (chunk, micro-batch) on one rank, and of the actions that use
// them.
struct Ends {
  int sent_activation = -1;
  int received_activation = -1;
  int sent_grad = -1;
  int received_grad = -1;
  int forward = -1;
  int backward = -1;
};

class TransferCheck {
 public:
  explicit TransferCheck(const Schedule& schedule) : schedule_(schedule), graph_(schedule) {}

  std::vector<Problem> run() {
    for (int rank = 0; rank < schedule_.num_ranks; ++rank) check_rank(rank);
    return std::move(problems_);
  }

 private:
  void report(int rank, int position, std::string message) {
    problems_.push_back({"transfer", rank, position, std::move(message)});
  }

  Ends& ends(int chunk, int microbatch) {
    return ends_[static_cast<size_t>(chunk) * schedule_.num_microbatches + microbatch];
  }

  void check_rank(int rank) {
    ends_.assign(static_cast<size_t>(schedule_.num_chunks) * schedule_.num_microbatches, {});
    const Program& program = schedule_.programs[rank];
    for (int position = 0; position < static_cast<int>(program.size()); ++position) {
      note(rank, position, program[position]);
    }
    for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk) {
      const MicrobatchRange range = microbatches_of(schedule_, chunk);
      for (int k = range.first; k < range.first + range.count; ++k) check_ends(rank, chunk, k);
    }
  }

  void note(int rank, int position, const Action& action) {
    const auto put = [&](int& spot, StagePlace peer) {
      if (spot >= 0) {
        report(rank, position, fmt::format("rank {} has {} twice", rank, text(action)));
      }
      if (!peer.exists() || peer.rank == rank || peer.rank != action.peer) {
        report(rank, position,
               fmt::format("rank {} has {} with peer {}; its neighbour there is rank {}", rank,
                           text(action), action.peer, peer.rank));
      }
      spot = position;
    };
    switch (action.kind) {
      case ActionKind::SendActivation:
        put(ends(action.chunk, action.microbatch).sent_activation, graph_.next(rank, action.chunk));
        break;
      case ActionKind::RecvActivation:
        put(ends(action.chunk, action.microbatch).received_activation,
            graph_.previous(rank, action.chunk));
        break;
      case ActionKind::SendGrad:
        put(ends(action.chunk, action.microbatch).sent_grad, graph_.previous(rank, action.chunk));
        break;
      case ActionKind::RecvGrad:
        put(ends(action.chunk, action.microbatch).received_grad, graph_.next(rank, action.chunk));
        break;
      case ActionKind::F:
        ends(action.chunk, action.microbatch).forward = position;
        break;
      case ActionKind::B:
      case ActionKind::BW:
        ends(action.chunk, action.microbatch).backward = position;
        break;
      case ActionKind::FB:
        ends(action.chunk, action.microbatch).forward = position;
        ends(action.chunk_b, action.microbatch_b).backward = position;
        break;
      default:
        break;
    }
  }

  void check_ends(int rank, int chunk, int k) {
    const Ends& here = ends(chunk, k);
    const StagePlace next = graph_.next(rank, chunk);
    const StagePlace previous = graph_.previous(rank, chunk);
    const bool to_next = next.exists() && next.rank != rank;
    const bool to_previous = previous.exists() && previous.rank != rank;
    const auto before = [&](bool is_needed, int first, std::string_view first_name, int second,
                            std::string_view second_name) {
      if (!is_needed) return;
      if (first < 0 || second < 0) {
        report(rank, -1,
               fmt::format("rank {} never has {} of micro-batch {} (chunk {})", rank,
                           first < 0 ? first_name : second_name, k, chunk));
      } else if (first > second) {
        report(rank, second,
               fmt::format("rank {} has {} of micro-batch {} (chunk {}) only after {}", rank,
                           first_name, k, chunk, second_name));
      }
    };
    before(to_next, here.forward, "the forward", here.sent_activation, "the send of its result");
    before(to_previous, here.received_activation, "the receive of the input", here.forward,
           "the forward");
    before(to_previous, here.backward, "the backward", here.sent_grad, "the send of its result");
    before(to_next, here.received_grad, "the receive of the gradient", here.backward,
           "the backward");
  }

  std::string text(const Action& action) const { return to_string(action, schedule_.num_chunks); }

  const Schedule& schedule_;
  StageGraph graph_;
  std::vector<Ends> ends_;  // [chunk, micro-batch] of the checked rank
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> check_transfers(const Schedule& schedule) {
  std::vector<Problem> problems = TransferCheck(schedule).run();
  if (!problems.empty()) return problems;
  const StageGraph graph(schedule);
  const Replayed replayed = replay(schedule, graph, TransferRule::Rendezvous);
  if (replayed.complete) return {};
  int first = 0;
  while (replayed.position[first] == schedule.programs[first].size()) ++first;
  return {{"transfer", first, static_cast<int>(replayed.position[first]),
           "blocking transfers hang: " + describe_stuck(schedule, replayed)}};
}

}  // namespace trireme
