#include "runtime/pipeline.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"

namespace trireme {
namespace {

enum Tag { kActivation, kGrad };

TensorRef tensor(const MatrixRef& x_TC) {
  return {x_TC.data, x_TC.dtype, Shape{x_TC.rows, x_TC.cols}};
}

TensorRef rows_of(const TensorRef& x_TC, const RowRange& rows) {
  const int64_t row_bytes = x_TC.shape[1] * size_of(x_TC.dtype);
  return {static_cast<char*>(x_TC.data) + rows.begin * row_bytes, x_TC.dtype,
          Shape{rows.count, x_TC.shape[1]}};
}

void copy(const TensorRef& from, const TensorRef& to) {
  std::memcpy(to.data, from.data, size_t(from.bytes()));
}

}  // namespace

Pipeline::Pipeline(const RankPlan& plan, const RankMemory& memory, Group& pp, Group& tp,
                   const std::vector<Stage>& stages)
    : plan_(plan), memory_(memory), pp_(pp), stages_(stages) {
  const Mesh& mesh = plan.lanes.mesh;
  size_t most_parts = 1;
  for (int place = 0; place < mesh.pp; ++place) {
    cuts_.push_back(message_cut(plan.shape, mesh.tp_at(place)));
    gathers_.try_emplace(cuts_.back().num_gathering());
    most_parts = std::max(most_parts, size_t(cuts_.back().there));
  }
  for (auto& [ranks, group] : gathers_) {
    group = tp.split(plan.coords.tp / ranks, plan.coords.tp, "gather");
  }
  gathered_.resize(size_t(gathers_.rbegin()->first));
  const auto reserve = [&](std::vector<Message>& messages, size_t slots) {
    messages.resize(slots);
    for (Message& message : messages) message.parts.reserve(most_parts);
  };
  for (const ChunkRegions& chunk : plan.memory.chunks) {
    reserve(activations_in_.emplace_back(), chunk.saved_slots.size());
    reserve(activations_out_.emplace_back(), chunk.saved_slots.size());
  }
  reserve(messages_, plan.memory.message_slots.size());
  reserve_gathers();
}

void Pipeline::reserve_gathers() {
  for (const Program* program : {&plan_.program, &plan_.eval_program}) {
    for (const Action& action : *program) {
      const bool is_forward = action.kind == ActionKind::RecvActivation;
      if (!is_forward && action.kind != ActionKind::RecvGrad) continue;
      const Stage& stage = stages_[size_t(action.chunk)];
      const MatrixRef x_TC = is_forward ? stage.input_TC(0) : stage.output_TC(0);
      const CollectiveArgs args = gather_args(action.peer, tensor(x_TC));
      gathers_.at(cut_of(action.peer).num_gathering())->reserve(args);
    }
  }
}

TensorRef Pipeline::message(int slot, const MatrixRef& carried) const {
  return {memory_.at(plan_.memory.message_slots[size_t(slot)]), carried.dtype,
          Shape{carried.rows, carried.cols}};
}

void Pipeline::start_parts(Message& message, const TensorRef& x_TC, const Action& transfer) {
  const bool sends =
      transfer.kind == ActionKind::SendActivation || transfer.kind == ActionKind::SendGrad;
  const bool is_grad =
      transfer.kind == ActionKind::SendGrad || transfer.kind == ActionKind::RecvGrad;
  const Tag tag = is_grad ? kGrad : kActivation;
  const MessageCut& cut = cut_of(transfer.peer);
  message.parts.clear();
  message.received_from = sends ? -1 : transfer.peer;
  for (int other = 0; other < cut.there; ++other) {
    const RowRange rows = cut.common(x_TC.shape[0], other);
    if (rows.count == 0) continue;
    const int peer = plan_.lanes.peer_of(transfer, cut.first_there + other);
    const TensorRef part_TC = rows_of(x_TC, rows);
    message.parts.push_back(sends ? pp_.start_send(part_TC, peer, tag)
                                  : pp_.start_recv(part_TC, peer, tag));
  }
}

void Pipeline::wait(Message& message) {
  const int64_t begin_ns = monotonic_ns();
  for (Work& part : message.parts) part.wait();
  waited_ns_ += monotonic_ns() - begin_ns;
}

CollectiveArgs Pipeline::gather_args(int place, const TensorRef& x_TC) {
  const MessageCut& cut = cut_of(place);
  const int64_t rows = x_TC.shape[0], cols = x_TC.shape[1];
  const auto ranks = size_t(cut.num_gathering());
  for (size_t rank = 0; rank < ranks; ++rank) {
    gathered_[rank] = cut.gathered(rows, int(rank)).count * cols;
  }
  TensorRef own = rows_of(x_TC, cut.gathered(rows, cut.index_in_gather()));
  own.shape = Shape{own.num_elements()};
  return {.collective = Collective::AllGather,
          .in = own,
          .out = {x_TC.data, x_TC.dtype, Shape{rows * cols}},
          .counts = std::span(gathered_).first(ranks)};
}

void Pipeline::take(Message& message, const TensorRef& x_TC) {
  wait(message);
  if (message.received_from < 0) return;  // it was handed over on this rank, or taken before
  const int place = std::exchange(message.received_from, -1);
  const int64_t begin_ns = monotonic_ns();
  gathers_.at(cut_of(place).num_gathering())->run(gather_args(place, x_TC));
  gather_waited_ns_ += monotonic_ns() - begin_ns;
}

Traffic Pipeline::gather_traffic() const {
  Traffic traffic;
  for (const auto& [ranks, group] : gathers_) traffic += group->traffic();
  return traffic;
}

int64_t Pipeline::scratch_bytes() const {
  int64_t bytes = 0;
  for (const auto& [ranks, group] : gathers_) bytes += group->scratch_bytes();
  return bytes;
}

void Pipeline::start(const Action& transfer, const ActionMemory& memory) {
  const size_t chunk = size_t(transfer.chunk);
  const Stage& stage = stages_[chunk];
  switch (transfer.kind) {
    case ActionKind::RecvActivation:
      return start_parts(activations_in_[chunk][size_t(memory.saved_slot)],
                         tensor(stage.input_TC(memory.saved_slot)), transfer);
    case ActionKind::SendActivation:
      return start_parts(activations_out_[chunk][size_t(memory.saved_slot)],
                         tensor(stage.output_TC(memory.saved_slot)), transfer);
    case ActionKind::RecvGrad:
      return start_parts(messages_[size_t(memory.message_in)],
                         message(memory.message_in, stage.output_TC(0)), transfer);
    case ActionKind::SendGrad:
      return start_parts(messages_[size_t(memory.message_out)],
                         message(memory.message_out, stage.input_TC(0)), transfer);
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
    take(activations_in_[chunk][size_t(memory.saved_slot)],
         tensor(stages_[chunk].input_TC(memory.saved_slot)));
  }
}

void Pipeline::take_output_grad(const Action& action, const ActionMemory& memory) {
  if (memory.message_in < 0) return;  // the last stage makes it itself
  const int slot = std::max(memory.weight_grad_slot, 0);
  const MatrixRef dy_TC = stages_[size_t(action.chunk)].output_grad_TC(slot);
  take(messages_[size_t(memory.message_in)], message(memory.message_in, dy_TC));
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
    for (std::vector<Message>& of_chunk : *transfers) {
      for (Message& message : of_chunk) wait(message);
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
