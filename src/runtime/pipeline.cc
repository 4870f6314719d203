#include "runtime/pipeline.h"

#include <cstring>

#include "base/clock.h"

namespace trireme {
namespace {

enum Tag { kActivation, kGrad };

TensorRef tensor(const MatrixRef& x_TC) {
  return {x_TC.data, x_TC.dtype, Shape{x_TC.rows, x_TC.cols}};
}

void copy(const TensorRef& from, const TensorRef& to) {
  std::memcpy(to.data, from.data, size_t(from.bytes()));
}

}  // namespace

Pipeline::Pipeline(const RankPlan& plan, const RankMemory& memory, Group& pp,
                   const std::vector<Stage>& stages)
    : plan_(plan), memory_(memory), pp_(pp), stages_(stages) {
  for (const ChunkRegions& chunk : plan.memory.chunks) {
    activations_in_.emplace_back(chunk.saved_slots.size());
    activations_out_.emplace_back(chunk.saved_slots.size());
  }
  messages_.resize(plan.memory.message_slots.size());
}

TensorRef Pipeline::message(int slot, const MatrixRef& carried) const {
  return {memory_.at(plan_.memory.message_slots[size_t(slot)]), carried.dtype,
          Shape{carried.rows, carried.cols}};
}

void Pipeline::wait(Work& work) {
  const int64_t begin_ns = monotonic_ns();
  work.wait();
  waited_ns_ += monotonic_ns() - begin_ns;
}

void Pipeline::start(const Action& transfer, const ActionMemory& memory) {
  const size_t chunk = size_t(transfer.chunk);
  const Stage& stage = stages_[chunk];
  const int peer = plan_.lanes.peer_of(transfer);
  switch (transfer.kind) {
    case ActionKind::RecvActivation:
      activations_in_[chunk][size_t(memory.saved_slot)] =
          pp_.start_recv(tensor(stage.input_TC(memory.saved_slot)), peer, kActivation);
      return;
    case ActionKind::SendActivation:
      activations_out_[chunk][size_t(memory.saved_slot)] =
          pp_.start_send(tensor(stage.output_TC(memory.saved_slot)), peer, kActivation);
      return;
    case ActionKind::RecvGrad:
      messages_[size_t(memory.message_in)] =
          pp_.start_recv(message(memory.message_in, stage.output_TC(0)), peer, kGrad);
      return;
    case ActionKind::SendGrad:
      messages_[size_t(memory.message_out)] =
          pp_.start_send(message(memory.message_out, stage.input_TC(0)), peer, kGrad);
      return;
    default:
      TRIREME_CHECK(false, to_string(transfer, 2) + " is no transfer");
  }
}

void Pipeline::take_input(const Action& action, const ActionMemory& memory) {
  const size_t chunk = size_t(action.chunk);
  if (memory.input_slot >= 0) {
    const size_t before = size_t(plan_.places[chunk].previous_chunk);
    copy(tensor(stages_[before].output_TC(memory.input_slot)),
         tensor(stages_[chunk].input_TC(memory.saved_slot)));
  } else {
    wait(activations_in_[chunk][size_t(memory.saved_slot)]);
  }
}

void Pipeline::take_output_grad(const Action& action, const ActionMemory& memory) {
  if (memory.message_in < 0) return;  // the last stage makes it itself
  wait(messages_[size_t(memory.message_in)]);
  const int slot = std::max(memory.weight_grad_slot, 0);
  const MatrixRef dy_TC = stages_[size_t(action.chunk)].output_grad_TC(slot);
  copy(message(memory.message_in, dy_TC), tensor(dy_TC));
}

void Pipeline::give_input_grad(const Action& action, const ActionMemory& memory) {
  if (memory.message_out < 0) return;  // nothing lies before the first stage
  const int slot = std::max(memory.weight_grad_slot, 0);
  const MatrixRef dx_TC = stages_[size_t(action.chunk)].input_grad_TC(slot);
  copy(tensor(dx_TC), message(memory.message_out, dx_TC));
}

void Pipeline::finish_activations() {
  for (auto* transfers : {&activations_in_, &activations_out_}) {
    for (std::vector<Work>& of_chunk : *transfers) {
      for (Work& work : of_chunk) wait(work);
    }
  }
}

void Pipeline::finish(const ActionMemory& memory) {
  for (const SavedSlot& saved : memory.finish_activations) {
    wait(activations_out_[size_t(saved.chunk)][size_t(saved.slot)]);
  }
  for (int slot : memory.finish_messages) wait(messages_[size_t(slot)]);
}

}  // namespace trireme
