#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/stage_graph.h"
#include "schema/program.h"

namespace trireme {

// The rule by which a transfer waits when a schedule is replayed.
enum class TransferRule {
  Implicit,    // no Send or Recv: a stage's result is at once available to the next stage
  Posted,      // Send and Recv return at once; the data arrive when both were reached
  Rendezvous,  // Send and Recv block their rank until the other side is there
};

// How far each rank came: the position of its first action that is not done.
struct Replayed {
  std::vector<size_t> position;  // [rank]
  bool complete = false;
};

// Returns text such as "rank 0 waits at position 3 (SF2>1), rank 1 waits at ...".
std::string describe_stuck(const Schedule& schedule, const Replayed& replayed);

// Visits the actions of a schedule in an order that respects the programs and the data: an action
// is visited after everything that it needs. The visitor keeps times and stores:
// visitor.action(rank, index)  for everything but a blocking transfer
// visitor.transfer(send_rank, send_index, recv_rank, recv_index)  for Rendezvous: both sides at
// once
template <typename Visitor>
class Replay {
 public:
  Replay(const Schedule& schedule, const StageGraph& graph, TransferRule rule, Visitor& visitor)
      : schedule_(schedule), graph_(graph), rule_(rule), visitor_(visitor) {
    const auto cells =
        static_cast<size_t>(graph.num_stages()) * static_cast<size_t>(schedule.num_microbatches);
    state_.assign(cells, 0);
  }

  Replayed run() {
    const int p = schedule_.num_ranks;
    position_.assign(p, 0);
    is_queued_.assign(p, 1);
    for (int rank = p - 1; rank >= 0; --rank) queue_.push_back(rank);
    while (!queue_.empty()) {
      const int rank = queue_.back();
      queue_.pop_back();
      is_queued_[rank] = 0;
      advance(rank);
    }
    Replayed result{position_, true};
    for (int rank = 0; rank < p; ++rank) {
      result.complete = result.complete && position_[rank] == schedule_.programs[rank].size();
    }
    return result;
  }

 private:
  // State of one (stage, micro-batch): what was done, and which halves of a transfer into it
  // happened.
  enum : uint8_t {
    kForward = 1,
    kBackwardInput = 2,
    kActivationSent = 4,
    kActivationTaken = 8,
    kGradSent = 16,
    kGradTaken = 32,
    kActivationHere = kActivationSent | kActivationTaken,
    kGradHere = kGradSent | kGradTaken,
  };

  uint8_t& state(int stage, int microbatch) {
    return state_[static_cast<size_t>(stage) * static_cast<size_t>(schedule_.num_microbatches) +
                  static_cast<size_t>(microbatch)];
  }
  bool has(int rank, int chunk, int microbatch, uint8_t bits) {
    return (state(graph_.stage(rank, chunk), microbatch) & bits) == bits;
  }
  void mark(StagePlace place, int microbatch, uint8_t bits) {
    state(graph_.stage(place.rank, place.chunk), microbatch) |= bits;
  }
  void wake(int rank) {
    if (is_queued_[rank]) return;
    is_queued_[rank] = 1;
    queue_.push_back(rank);
  }

  void advance(int rank) {
    const Program& program = schedule_.programs[rank];
    while (position_[rank] < program.size()) {
      const Action& action = program[position_[rank]];
      if (rule_ == TransferRule::Rendezvous && is_transfer(action.kind)) {
        if (!meet(rank, action)) return;
        continue;
      }
      if (!is_ready(rank, action)) return;
      visitor_.action(rank, position_[rank]);
      ++position_[rank];
      finish(rank, action);
    }
  }

  bool is_ready(int rank, const Action& action) {
    switch (action.kind) {
      case ActionKind::F:
        return can_forward(rank, action.chunk, action.microbatch);
      case ActionKind::B:
      case ActionKind::BW:
        return can_backward(rank, action.chunk, action.microbatch);
      case ActionKind::FB:
        return can_forward(rank, action.chunk, action.microbatch) &&
               can_backward(rank, action.chunk_b, action.microbatch_b);
      case ActionKind::W:
        return has(rank, action.chunk, action.microbatch, kBackwardInput);
      case ActionKind::SendActivation:
        return has(rank, action.chunk, action.microbatch, kForward);
      case ActionKind::SendGrad:
        return has(rank, action.chunk, action.microbatch, kBackwardInput);
      default:
        return true;
    }
  }
  bool can_forward(int rank, int chunk, int microbatch) {
    return !graph_.previous(rank, chunk).exists() || has(rank, chunk, microbatch, kActivationHere);
  }
  bool can_backward(int rank, int chunk, int microbatch) {
    if (!has(rank, chunk, microbatch, kForward)) return false;
    return !graph_.next(rank, chunk).exists() || has(rank, chunk, microbatch, kGradHere);
  }

  void finish(int rank, const Action& action) {
    switch (action.kind) {
      case ActionKind::F:
        finish_forward(rank, action.chunk, action.microbatch);
        break;
      case ActionKind::B:
      case ActionKind::BW:
        finish_backward(rank, action.chunk, action.microbatch);
        break;
      case ActionKind::FB:
        finish_forward(rank, action.chunk, action.microbatch);
        finish_backward(rank, action.chunk_b, action.microbatch_b);
        break;
      case ActionKind::SendActivation:
        finish_transfer(graph_.next(rank, action.chunk), action.microbatch, kActivationSent);
        break;
      case ActionKind::SendGrad:
        finish_transfer(graph_.previous(rank, action.chunk), action.microbatch, kGradSent);
        break;
      case ActionKind::RecvActivation:
        mark({rank, action.chunk}, action.microbatch, kActivationTaken);
        break;
      case ActionKind::RecvGrad:
        mark({rank, action.chunk}, action.microbatch, kGradTaken);
        break;
      default:
        break;
    }
  }
  void finish_forward(int rank, int chunk, int microbatch) {
    mark({rank, chunk}, microbatch, kForward);
    const StagePlace next = graph_.next(rank, chunk);
    if (next.exists()) hand_over(rank, next, microbatch, kActivationHere);
  }
  void finish_backward(int rank, int chunk, int microbatch) {
    mark({rank, chunk}, microbatch, kBackwardInput);
    const StagePlace previous = graph_.previous(rank, chunk);
    if (previous.exists()) hand_over(rank, previous, microbatch, kGradHere);
  }
  // Marks data as available without a transfer: on the same rank, or with implicit transfers.
  void hand_over(int rank, StagePlace to, int microbatch, uint8_t bits) {
    if (to.rank != rank && rule_ != TransferRule::Implicit) return;
    mark(to, microbatch, bits);
    if (to.rank != rank) wake(to.rank);
  }
  void finish_transfer(StagePlace to, int microbatch, uint8_t bits) {
    if (!to.exists()) return;
    mark(to, microbatch, bits);
    wake(to.rank);
  }

  // Returns true if a blocking transfer is done, because the other side is at its half of the
  // message.
  bool meet(int rank, const Action& action) {
    const bool sends =
        action.kind == ActionKind::SendActivation || action.kind == ActionKind::SendGrad;
    const bool is_activation =
        action.kind == ActionKind::SendActivation || action.kind == ActionKind::RecvActivation;
    if (sends && !is_ready(rank, action)) return false;
    const StagePlace here{rank, action.chunk};
    const StagePlace other = sends == is_activation ? graph_.next(rank, action.chunk)
                                                    : graph_.previous(rank, action.chunk);
    if (!other.exists() || position_[other.rank] == schedule_.programs[other.rank].size()) {
      return false;
    }
    const Action& half = schedule_.programs[other.rank][position_[other.rank]];
    const ActionKind wanted =
        sends ? (is_activation ? ActionKind::RecvActivation : ActionKind::RecvGrad)
              : (is_activation ? ActionKind::SendActivation : ActionKind::SendGrad);
    if (half.kind != wanted || half.chunk != other.chunk || half.microbatch != action.microbatch) {
      return false;
    }
    if (!sends && !is_ready(other.rank, half)) return false;
    const StagePlace from = sends ? here : other;
    const StagePlace to = sends ? other : here;
    visitor_.transfer(from.rank, position_[from.rank], to.rank, position_[to.rank]);
    mark(to, action.microbatch, is_activation ? kActivationHere : kGradHere);
    ++position_[from.rank];
    ++position_[to.rank];
    wake(other.rank);
    return true;
  }

  const Schedule& schedule_;
  const StageGraph& graph_;
  TransferRule rule_;
  Visitor& visitor_;
  std::vector<uint8_t> state_;  // [stage, micro-batch]
  std::vector<size_t> position_;
  std::vector<uint8_t> is_queued_;
  std::vector<int> queue_;
};

// Replays without a visitor and returns how far the ranks come.
Replayed replay(const Schedule& schedule, const StageGraph& graph, TransferRule rule);

}  // namespace trireme
