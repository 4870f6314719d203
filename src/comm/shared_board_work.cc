// The work of a rank on the buffers of the others once all have arrived, either in place or in
// segments through the stages.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "comm/reduce.h"
#include "comm/shared_board.h"

namespace trireme {
namespace {

// Adds integers instead of pointers, because the offset of an absent tensor points nowhere.
template <typename T, typename Offset>
T* address_of(T* base, Offset offset) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(base) + static_cast<uintptr_t>(offset));
}

void copy_elements(std::byte* target, const std::byte* source, int64_t bytes) {
  if (bytes > 0 && target != source) std::memmove(target, source, size_t(bytes));
}

}  // namespace

// targets[i][0..count) = the reduction over all ranks of inputs[begin, begin + count).
void SharedBoard::reduce_part(const std::vector<const std::byte*>& inputs, int64_t begin,
                              int64_t count, std::span<void* const> targets) {
  if (count == 0) return;
  if (inputs.size() == 1) {
    for (void* target : targets) {
      copy_elements(static_cast<std::byte*>(target), inputs[0] + begin * element_,
                    count * element_);
    }
    return;
  }
  for (size_t r = 0; r < inputs.size(); ++r) sources_[r] = inputs[r] + begin * element_;
  reduce_tree(call_.dtype, call_.op, targets, sources_, count);
}

// The collectives that only read other ranks' memory, for elements [begin, end) of the full vector.
// inputs[r] is rank r's input; its first element is element in_begin(r) of the full vector.
void SharedBoard::work(const std::vector<const std::byte*>& inputs, int64_t begin, int64_t end) {
  const int me = shape_.rank;
  const auto cut = [&](int rank) {  // the part of `rank` inside [begin, end)
    const int64_t first = std::clamp(begins_[size_t(rank)], begin, end);
    const int64_t last = std::clamp(begins_[size_t(rank) + 1], begin, end);
    return std::pair{first, last - first};
  };
  const auto [own_first, own_count] = cut(me);
  const int64_t own_offset = own_first - begins_[size_t(me)];
  switch (call_.collective) {
    case Collective::Broadcast:
      if (me == call_.root) return;
      copy_elements(call_.out + begin * element_, inputs[size_t(call_.root)] + begin * element_,
                    (end - begin) * element_);
      return;
    case Collective::Scatter:
      copy_elements(call_.out + own_offset * element_,
                    inputs[size_t(call_.root)] + own_first * element_, own_count * element_);
      return;
    case Collective::Gather:
      if (me != call_.root) return;
      [[fallthrough]];
    case Collective::AllGather:
      for (int r = 0; r < shape_.size(); ++r) {
        const auto [first, count] = cut(r);
        copy_elements(call_.out + first * element_,
                      inputs[size_t(r)] + (first - begins_[size_t(r)]) * element_,
                      count * element_);
      }
      return;
    case Collective::ReduceScatter: {
      void* target = call_.out + own_offset * element_;
      reduce_part(inputs, own_first, own_count, {&target, 1});
      return;
    }
    case Collective::AllToAll: {
      const int64_t stride = begins_[size_t(me) + 1] - begins_[size_t(me)];
      for (int r = 0; r < shape_.size(); ++r) {
        copy_elements(call_.out + (r * stride + own_offset) * element_,
                      inputs[size_t(r)] + own_first * element_, own_count * element_);
      }
      return;
    }
    default:
      return;
  }
}

void SharedBoard::work_eager() {
  for (int rank = 0; rank < shape_.size(); ++rank) inputs_[size_t(rank)] = eager_payload(rank);
  if (call_.collective != Collective::AllReduce && call_.collective != Collective::Reduce) {
    return work(inputs_, 0, call_.count);
  }
  if (call_.collective == Collective::Reduce && shape_.rank != call_.root) return;
  void* target = call_.out;
  reduce_part(inputs_, 0, call_.count, {&target, 1});
}

void SharedBoard::work_direct() {
  const int n = shape_.size();
  const int me = shape_.rank;
  for (int r = 0; r < n; ++r) inputs_[size_t(r)] = address_of(view_.bases[size_t(r)], entry(r).in);
  const auto out_of = [&](int r) { return address_of(view_.bases[size_t(r)], entry(r).out); };
  const int64_t begin = begins_[size_t(me)];
  const int64_t count = begins_[size_t(me) + 1] - begin;
  if (call_.collective == Collective::AllReduce) {
    for (int r = 0; r < n; ++r) targets_[size_t(r)] = out_of(r) + begin * element_;
    reduce_part(inputs_, begin, count, targets_);
  } else if (call_.collective == Collective::Reduce) {
    void* target = out_of(call_.root) + begin * element_;
    reduce_part(inputs_, begin, count, {&target, 1});
  } else if (call_.collective == Collective::AllToAll && !call_.recv_counts.empty()) {
    int64_t received = 0;
    for (int r = 0; r < n; ++r) {
      const auto* sent = reinterpret_cast<const int64_t*>(out_of(r));
      int64_t first = 0;
      for (int i = 0; i < me; ++i) first += sent[i];
      TRIREME_CHECK(
          sent[me] == call_.recv_counts[size_t(r)],
          "all_to_all: a rank sends a different number of elements than its peer expects");
      copy_elements(call_.out + received * element_, inputs_[size_t(r)] + first * element_,
                    sent[me] * element_);
      received += sent[me];
    }
  } else {
    work(inputs_, 0, begins_[size_t(n)]);
  }
}

// Buffers that other ranks cannot access pass through the stages in segments, and each segment is
// its own call. Inputs are copied in, each rank works on the stages, results are copied out. The
// part of the segment that this rank reduces stays in its own buffers.
void SharedBoard::begin_staged() {
  TRIREME_CHECK(view_.stage_bytes > 0, "buffers are not visible and there is no stage");
  TRIREME_CHECK(call_.count >= 0, "unequal all_to_all between processes goes through messages");
  segment_begin_ = 0;
  stage_in();
}

bool SharedBoard::reduces_whole() const {
  return call_.collective == Collective::AllReduce || call_.collective == Collective::Reduce;
}

bool SharedBoard::has_result() const {
  return call_.collective == Collective::AllReduce || shape_.rank == call_.root;
}

std::byte* SharedBoard::stage_of(int rank) const {
  return view_.stages[size_t(rank)] + int64_t(number_ % 2) * (view_.stage_bytes / 2);
}

std::pair<int64_t, int64_t> SharedBoard::own_part() const {
  const int64_t segment = segment_end_ - segment_begin_;
  const int64_t begin = segment_begin_ + balanced_begin(segment, shape_.size(), shape_.rank);
  return {begin, begin + balanced_count(segment, shape_.size(), shape_.rank)};
}

std::array<std::pair<int64_t, int64_t>, 2> SharedBoard::parts_of_others() const {
  if (!reduces_whole()) return {{{segment_begin_, segment_end_}, {segment_end_, segment_end_}}};
  const auto [begin, end] = own_part();
  return {{{segment_begin_, begin}, {end, segment_end_}}};
}

void SharedBoard::stage_in() {
  const int64_t capacity = view_.stage_bytes / 2 / element_;
  segment_end_ = std::min(call_.count, segment_begin_ + capacity);
  ++number_;
  std::byte* stage = stage_of(shape_.rank);
  const int64_t base = in_begin(shape_.rank);
  for (const auto& [begin, end] : parts_of_others()) {
    const int64_t first = std::clamp(base, begin, end);
    const int64_t last = std::clamp(base + in_count(), begin, end);
    copy_elements(stage + (first - segment_begin_) * element_, call_.in + (first - base) * element_,
                  (last - first) * element_);
  }
  SharedSlot::Entry& mine = entry(shape_.rank);
  mine.hash = call_.signature->hash();
  stage_ = Stage::StageArriving;
  begin_look();
  mine.arrived.store(number_, std::memory_order_seq_cst);
}

void SharedBoard::stage_work() {
  const int n = shape_.size();
  if (reduces_whole()) {
    const auto [first, last] = own_part();
    const int64_t begin = first - segment_begin_;
    for (int r = 0; r < n; ++r) {
      inputs_[size_t(r)] = stage_of(r);
      targets_[size_t(r)] = stage_of(r) + begin * element_;
    }
    inputs_[size_t(shape_.rank)] = call_.in + segment_begin_ * element_;
    if (has_result()) targets_[size_t(shape_.rank)] = call_.out + first * element_;
    std::span<void* const> targets(targets_);
    if (call_.collective == Collective::Reduce) targets = targets.subspan(size_t(call_.root), 1);
    reduce_part(inputs_, begin, last - first, targets);
    return;
  }
  // work() counts from the beginning of each rank's input.
  for (int r = 0; r < n; ++r) {
    inputs_[size_t(r)] = stage_of(r) - (segment_begin_ - in_begin(r)) * element_;
  }
  work(inputs_, segment_begin_, segment_end_);
}

void SharedBoard::stage_out() {
  if (reduces_whole() && has_result()) {
    const std::byte* stage = stage_of(shape_.rank);
    for (const auto& [begin, end] : parts_of_others()) {
      copy_elements(call_.out + begin * element_, stage + (begin - segment_begin_) * element_,
                    (end - begin) * element_);
    }
  }
  segment_begin_ = segment_end_;
  if (segment_begin_ < call_.count) {
    stage_in();
  } else {
    stage_ = Stage::Idle;
  }
}

}  // namespace trireme
