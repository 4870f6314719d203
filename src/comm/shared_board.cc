#include "comm/shared_board.h"

#include <cstring>
#include <thread>

#include "base/check.h"
#include "comm/waiter.h"

namespace trireme {
namespace {

bool from_root(Collective c) { return c == Collective::Broadcast || c == Collective::Scatter; }

}  // namespace

SharedBoard::SharedBoard(Fabric& fabric, GroupShape shape, SharedView view)
    : fabric_(fabric), shape_(std::move(shape)), view_(std::move(view)) {
  const size_t size = size_t(shape_.size());
  TRIREME_CHECK(view_.slots.size() == size && view_.bases.size() == size,
                "a shared view needs every rank of the group");
  begins_.resize(size + 1);
  inputs_.resize(size);
  sources_.resize(size);
  targets_.resize(size);
}

void SharedBoard::start(const Call& call) {
  call_ = call;
  element_ = size_of(call.dtype);
  begins_[0] = 0;
  for (int r = 0; r < shape_.size(); ++r) {
    const int64_t count =
        call.counts.empty() ? balanced_count(call.count, shape_.size(), r) : call.counts[size_t(r)];
    begins_[size_t(r) + 1] = begins_[size_t(r)] + count;
  }
  announce();
}

// Number of elements of this rank's input. in_begin is where a rank's input begins in the full
// vector.
int64_t SharedBoard::in_count() const {
  const size_t r = size_t(shape_.rank);
  if (gathers(call_.collective)) return begins_[r + 1] - begins_[r];
  if (from_root(call_.collective) && shape_.rank != call_.root) return 0;
  return begins_[size_t(shape_.size())];
}
int64_t SharedBoard::in_begin(int rank) const {
  return gathers(call_.collective) ? begins_[size_t(rank)] : 0;
}

bool SharedBoard::is_eager() const {
  return call_.count >= 0 && call_.count * element_ <= kEagerBytes;
}

const std::byte* SharedBoard::eager_payload(int rank) const {
  const bool in_line = call_.count * element_ <= SharedSlot::kLineBytes;
  return in_line ? entry(rank).line.data() : slot(rank).eager[number_ % 2].data();
}

void SharedBoard::announce() {
  if (view_.hook) view_.hook(shape_.members[size_t(shape_.rank)]);
  ++number_;
  SharedSlot::Entry& mine = entry(shape_.rank);
  mine.hash = call_.signature->hash();
  if (is_eager()) {
    const size_t bytes = size_t(in_count() * element_);
    auto* payload = const_cast<std::byte*>(eager_payload(shape_.rank));
    if (bytes > 0) std::memcpy(payload, call_.in, bytes);
  } else {
    const std::byte* base = view_.bases[size_t(shape_.rank)];
    const bool is_alone = shape_.size() == 1;
    const auto reaches = [&](const std::byte* data) {
      return view_.window == nullptr || is_alone ||
             (data >= view_.window && data < view_.window + view_.window_bytes);
    };
    const std::byte* second = call_.out;
    if (call_.collective == Collective::AllToAll) {
      const int64_t* const counts = call_.counts.empty() ? nullptr : call_.counts.data();
      second = reinterpret_cast<const std::byte*>(counts);
    }
    mine.in = uint64_t(call_.in - base);
    mine.out = uint64_t(second - base);
    mine.visible =
        (call_.in == nullptr || reaches(call_.in)) && (second == nullptr || reaches(second));
  }
  stage_ = Stage::Arriving;
  begin_look();
  mine.arrived.store(number_, std::memory_order_seq_cst);
}

void SharedBoard::check_call(int rank) const {
  if (entry(rank).hash == call_.signature->hash()) [[likely]]
    return;
  // The peer finds the same mismatch and shows its call while it waits. Give it a moment, so that
  // the report can name both calls.
  const int me = shape_.members[size_t(shape_.rank)];
  const int peer = shape_.members[size_t(rank)];
  // If both threads of this rank find a mismatch at once, the text may be mixed from both.
  SharedRecord<WaitRecord>& shown = fabric_.cell(me).waits[1];
  const SignatureRecord mine = record_of(*call_.signature);
  shown.store({.since_ns = steady_now_ns(), .peer = peer, .what = mine});
  SignatureRecord theirs;
  const int64_t deadline = steady_now_ns() + 1'000'000'000;
  // Counts polls as well as time, because the whole host may have been stopped.
  for (int look = 0; (look < 1000 || steady_now_ns() < deadline) && !fabric_.aborted(); ++look) {
    bool found = false;
    for (const SharedRecord<WaitRecord>& lane : fabric_.cell(peer).waits) {
      const std::optional<WaitRecord> wait = lane.load();
      if (!wait || wait->since_ns == 0 || wait->what.hash != entry(rank).hash) continue;
      theirs = wait->what;
      found = true;
    }
    if (found) break;
    std::this_thread::yield();
  }
  fabric_.abort(me, mismatch_text(me, mine, peer, theirs));
  shown.store(WaitRecord{});
  fabric_.throw_aborted(me, to_string(mine));
}

bool SharedBoard::all_arrived() {
  for (; next_peer_ < shape_.size(); ++next_peer_) {
    if (next_peer_ == shape_.rank) continue;
    // A peer may be one call ahead, in the other entry.
    if (entry(next_peer_).arrived.load(std::memory_order_seq_cst) != number_) {
      has_waited_ = true;
      return false;
    }
    check_call(next_peer_);
  }
  ring_if_last();
  return true;
}

bool SharedBoard::all_have(std::atomic<uint64_t> SharedSlot::*counter) {
  for (; next_peer_ < shape_.size(); ++next_peer_) {
    if (next_peer_ == shape_.rank) continue;
    if ((slot(next_peer_).*counter).load(std::memory_order_seq_cst) < number_) {
      has_waited_ = true;
      return false;
    }
  }
  ring_if_last();
  return true;
}

// Call it before the store that tells the peers.
void SharedBoard::begin_look() {
  next_peer_ = 0;
  has_waited_ = false;
}

// No rank can continue before the last has arrived, so nobody needs to be woken earlier. The rank
// whose store is last in the order of all stores sees all others when it looks for the first time.
// A rank that had to wait was not the last. It does not ring, because that would wake peers that
// already sleep in a later call.
void SharedBoard::ring_if_last() const {
  if (has_waited_) return;
  for (int rank : shape_.members) {
    if (rank != shape_.members[size_t(shape_.rank)]) fabric_.ring(rank);
  }
}

bool SharedBoard::all_visible() const {
  for (int rank = 0; rank < shape_.size(); ++rank) {
    if (entry(rank).visible == 0) return false;
  }
  return true;
}

// From here to depart() this rank uses other ranks' buffers; see cancel().
void SharedBoard::begin_work() {
  if (view_.hook) view_.hook(shape_.members[size_t(shape_.rank)]);
  slot(shape_.rank).working.store(number_, std::memory_order_seq_cst);
  if (!fabric_.aborted()) return;
  slot(shape_.rank).working.store(0, std::memory_order_seq_cst);
  const int me = shape_.members[size_t(shape_.rank)];
  fabric_.throw_aborted(me, to_string(record_of(*call_.signature)));
}

void SharedBoard::depart() {
  SharedSlot& mine = slot(shape_.rank);
  mine.working.store(0, std::memory_order_release);
  begin_look();
  mine.departed.store(number_, std::memory_order_seq_cst);
}

bool SharedBoard::advance() {
  if (stage_ == Stage::Arriving) {
    if (!all_arrived()) return false;
    if (call_.collective == Collective::Barrier || is_eager()) {
      work_eager();
      stage_ = Stage::Idle;
      return true;
    }
    if (all_visible()) {
      begin_work();
      work_direct();
      depart();
      stage_ = Stage::Departing;
    } else {
      begin_staged();
    }
  }
  while (stage_ == Stage::StageArriving || stage_ == Stage::StageDeparting) {
    if (stage_ == Stage::StageArriving) {
      if (!all_arrived()) return false;
      begin_work();
      stage_work();
      depart();
      stage_ = Stage::StageDeparting;
    }
    if (!all_have(&SharedSlot::departed)) return false;
    stage_out();  // stages out, then begins the next segment or becomes Idle
  }
  if (stage_ == Stage::Departing) {
    if (!all_have(&SharedSlot::departed)) return false;
    stage_ = Stage::Idle;
  }
  return true;
}

// A rank that began to work before it could see the abort finishes its work; no rank begins
// afterwards.
void SharedBoard::cancel() {
  if (stage_ == Stage::Idle) return;
  slot(shape_.rank).working.store(0, std::memory_order_seq_cst);
  if (view_.window == nullptr) {
    for (int r = 0; r < shape_.size(); ++r) {
      while (r != shape_.rank && slot(r).working.load(std::memory_order_seq_cst) == number_) {
        std::this_thread::yield();
      }
    }
  }
  stage_ = Stage::Idle;
}

}  // namespace trireme
