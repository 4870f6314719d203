#include "comm/execution.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "comm/reduce.h"

namespace trireme {

namespace {
constexpr int kMaxRanks = 4096;
}

void Execution::start(const Task& task) {
  task_ = task;
  next_ = 0;
  exchanging_ = sending_ = receiving_ = false;
}

std::byte* Execution::at(const Piece& piece) const {
  const int64_t offset = piece.begin * size_of(task_.dtype);
  switch (piece.memory) {
    case Memory::In:
      return const_cast<std::byte*>(task_.in) + offset;  // never written
    case Memory::Out:
      return task_.out + offset;
    case Memory::Tmp:
      return task_.tmp + offset;
  }
  return nullptr;
}

void Execution::begin_exchange(const Step& step) {
  const int64_t element = size_of(task_.dtype);
  exchanging_ = true;
  sending_ = step.send_to >= 0 && (step.send.count > 0 || task_.sends_empty);
  receiving_ = step.recv_from >= 0 && (step.recv.count > 0 || task_.sends_empty);
  const auto common = [&](Transfer& transfer, bool is_send, int peer, int64_t bytes) {
    transfer = Transfer{.is_send = is_send,
                        .lane = task_.lane,
                        .peer = peer,
                        .tag = task_.tag,
                        .signature = task_.signature,
                        .bytes = bytes,
                        .dtype = task_.dtype,
                        .op = task_.op};
  };
  if (receiving_) {
    common(recv_, false, step.recv_from, step.recv.count * element);
    recv_.target = at(step.recv);
    recv_.landing = step.landing;
    if (step.landing != Landing::Copy) recv_.operand = at(step.operand);
    task_.transport->post(recv_);
  }
  if (sending_) {
    common(send_, true, step.send_to, step.send.count * element);
    send_.source = at(step.send);
    task_.transport->post(send_);
    task_.traffic->count_sent(send_.bytes);
  }
}

// A rank announces its own message before it accepts the peer's. The peer then accepts before it
// sends its payload, so that both payloads travel at the same time.
bool Execution::exchange_done() {
  if (sending_ && task_.transport->test(send_)) sending_ = false;
  if (receiving_ && task_.transport->test(recv_)) {
    receiving_ = false;
    task_.traffic->count_received(recv_.bytes);
  }
  return !receiving_ && !sending_;
}

void Execution::run_local(const Step& step) const {
  if (step.kind == Step::Kind::Copy) {
    const int64_t bytes = step.recv.count * size_of(task_.dtype);
    if (bytes > 0 && at(step.recv) != at(step.send)) {
      std::memmove(at(step.recv), at(step.send), size_t(bytes));
    }
    return;
  }
  TRIREME_CHECK(task_.size <= kMaxRanks, "a group has at most 4096 ranks");
  std::array<const void*, kMaxRanks> sources;
  const int64_t bytes = step.recv.count * size_of(task_.dtype);
  for (int rank = 0; rank < task_.size; ++rank) sources[rank] = task_.tmp + rank * bytes;
  sources[task_.rank] = at(step.operand);
  void* target = at(step.recv);
  reduce_tree(task_.dtype, task_.op, {&target, 1}, {sources.data(), size_t(task_.size)},
              step.recv.count);
}

bool Execution::advance() {
  while (next_ < task_.steps.size()) {
    const Step& step = task_.steps[next_];
    if (step.kind != Step::Kind::Exchange) {
      run_local(step);
    } else {
      if (!exchanging_) begin_exchange(step);
      if (!exchange_done()) return false;
      exchanging_ = false;
    }
    ++next_;
  }
  if (task_.op == ReduceOp::Mean && task_.mean_count > 0) {
    divide(task_.dtype, task_.out + task_.mean_begin * size_of(task_.dtype), task_.mean_count,
           task_.size);
    task_.mean_count = 0;
  }
  return true;
}

int Execution::waiting_for() const {
  if (receiving_) return recv_.peer;
  if (sending_) return send_.peer;
  return -1;
}

void Execution::cancel() {
  if (receiving_) task_.transport->cancel(recv_);
  if (sending_) task_.transport->cancel(send_);
  receiving_ = sending_ = false;
}

}  // namespace trireme
