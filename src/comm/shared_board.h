#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "collectives/plan.h"
#include "comm/fabric.h"
#include "comm/group_shape.h"

namespace trireme {

// The slot in which one rank of a group announces its shared calls, in zeroed memory that all ranks
// of the group see. Calls alternate between two entries: a rank comes to call n + 2 only after all
// ranks came to call n + 1 and so have finished call n.
struct SharedSlot {
  // Up to so many bytes of payload are copied into the announcement.
  static constexpr int64_t kLineBytes = 24;

  struct alignas(64) Entry {
    std::atomic<uint64_t> arrived;  // number of the call; the other fields are valid once it is set
    uint64_t hash;
    uint64_t in;   // address relative to the owner's base
    uint64_t out;  // address; all_to_all: of its send counts
    uint64_t visible;
    std::array<std::byte, kLineBytes> line;
  };
  Entry entries[2];
  alignas(64) std::atomic<uint64_t> working;  // number of the call whose buffers this rank uses
  std::atomic<uint64_t> departed;  // number of the call whose work on other ranks' buffers is done
  alignas(64) std::array<std::array<std::byte, kEagerBytes>, 2> eager;
};

// How a rank sees the memory of the others: address `a` of rank r is `bases[r] + a` in this
// process. Threads share all addresses (bases are null); processes share a window.
struct SharedView {
  std::vector<SharedSlot*> slots;  // [group rank]
  std::vector<std::byte*> bases;   // [group rank]
  // The part of this rank's memory that the others can access; null: all of it.
  const std::byte* window = nullptr;
  int64_t window_bytes = 0;
  // [group rank]: shared memory through which buffers outside the windows pass; empty: not needed.
  std::vector<std::byte*> stages;
  int64_t stage_bytes = 0;
  FaultHook hook;  // for tests: called before a rank announces a call and before it works
};

// Algorithm::Shared: ranks read each other's inputs and write each other's results in place. Each
// rank reduces its own part of the vector over all inputs, in the canonical order, and writes it to
// all results, so every byte is read once and written once. One object per rank and group.
class SharedBoard {
 public:
  SharedBoard(Fabric& fabric, GroupShape shape, SharedView view);

  struct Call {
    const Signature* signature = nullptr;
    Collective collective = Collective::Barrier;
    DType dtype = DType::U8;
    ReduceOp op = ReduceOp::Sum;
    int root = 0;
    int64_t count = 0;                     // elements of the full vector; -1: differs by rank
    std::span<const int64_t> counts;       // per rank; all_to_all: sent to each rank
    std::span<const int64_t> recv_counts;  // all_to_all: received from each rank
    const std::byte* in = nullptr;         // null if this rank has no input
    std::byte* out = nullptr;
  };
  void start(const Call& call);
  // Does everything that is possible without waiting. Returns true once complete.
  bool advance();
  // True if the ranks can access all of each other's memory, not only a window.
  bool reaches_everything() const { return view_.window == nullptr; }
  int waiting_for() const { return stage_ == Stage::Idle ? -1 : next_peer_; }
  // Call it after a failure. Returns once no peer uses this rank's buffers.
  void cancel();

 private:
  enum class Stage : uint8_t { Idle, Arriving, Departing, StageArriving, StageDeparting };

  SharedSlot& slot(int rank) const { return *view_.slots[rank]; }
  SharedSlot::Entry& entry(int rank) const { return slot(rank).entries[number_ % 2]; }
  int64_t in_count() const;
  int64_t in_begin(int rank) const;
  bool is_eager() const;
  const std::byte* eager_payload(int rank) const;
  void announce();
  void depart();
  void begin_work();
  bool all_have(std::atomic<uint64_t> SharedSlot::*counter);
  bool all_arrived();
  void begin_look();
  void ring_if_last() const;
  bool all_visible() const;
  void check_call(int rank) const;
  void work_eager();
  void work_direct();
  void reduce_part(const std::vector<const std::byte*>& inputs, int64_t begin, int64_t count,
                   std::span<void* const> targets);
  void work(const std::vector<const std::byte*>& inputs, int64_t begin, int64_t end);

  // In staged calls. All ranks reduce one part of a segment each, for all of them or for the root.
  bool reduces_whole() const;
  bool has_result() const;
  std::byte* stage_of(int rank) const;
  // Ranges of elements of the full vector.
  std::pair<int64_t, int64_t> own_part() const;
  std::array<std::pair<int64_t, int64_t>, 2> parts_of_others() const;
  void begin_staged();
  void stage_in();
  void stage_work();
  void stage_out();

  Fabric& fabric_;
  GroupShape shape_;
  SharedView view_;
  Call call_;
  int64_t element_ = 1;  // bytes per element
  uint64_t number_ = 0;  // number of this rank's last announcement
  Stage stage_ = Stage::Idle;
  int next_peer_ = 0;          // all peers before it have arrived, or departed
  bool has_waited_ = false;    // for a peer, since this rank has arrived, or departed
  int64_t segment_begin_ = 0;  // first element of the segment, in staged calls
  int64_t segment_end_ = 0;
  std::vector<int64_t> begins_;  // first element of every rank's part in the full vector
  std::vector<const std::byte*> inputs_;
  std::vector<const void*> sources_;
  std::vector<void*> targets_;
};

}  // namespace trireme
