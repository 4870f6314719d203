#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/shared_record.h"
#include "collectives/collective.h"

namespace trireme {

// Describes what a rank waits for. It is printed at a deadline and read by the search for
// mismatches.
struct WaitRecord {
  int64_t since_ns = 0;  // steady clock; 0: not waiting
  int32_t peer = -1;     // world rank; -1: the rank's own transfers
  int32_t reserved = 0;
  SignatureRecord what;
};

// A bell that is rung after a rank's memory was written. It counts only while someone sleeps on it.
struct alignas(64) Doorbell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleepers;
};

inline constexpr int kWaitLanes = 2;  // see RankCell
// Groups with lower ids take part in the search for cycles.
inline constexpr int kWatchedGroups = 64;

// The state that one rank shows to all others. It lies in zeroed shared memory.
struct RankCell {
  Doorbell bell;
  // Wakes an idle communication thread, and a calling thread that waits for its communication
  // thread. Peers do not ring it.
  Doorbell own_bell;
  alignas(64) std::atomic<uint32_t> left;  // 1 once the rank's function has returned
  std::atomic<int32_t> pid;
  // When its calling thread and its communication thread last polled; 0: asleep or not waiting.
  std::atomic<int64_t> looked_ns[kWaitLanes];
  // For each group id the number of collectives that the rank has called, so that peers can tell
  // that it has not arrived yet.
  std::atomic<uint64_t> issued[kWatchedGroups];
  // Records of what its calling thread waits for, and of the call of either thread that differs
  // from a peer's.
  SharedRecord<WaitRecord> waits[kWaitLanes];
  // Work that the rank does alone, such as file work, while its peers wait.
  Progress progress;
};

struct FabricHeader {
  // 0: running; 1: the cause is being written; 2: the cause is written
  std::atomic<uint32_t> abort_state;
  std::atomic<int32_t> abort_rank;
  std::atomic<int32_t> abort_kind;  // an ErrorKind
  char cause[8192];
};

// The state that ranks of one host share about each other: who waits for whom, who has left, and
// the first cause of a failure. It does not own its memory.
class Fabric {
 public:
  Fabric(FabricHeader& header, std::vector<RankCell*> cells);

  int size() const { return static_cast<int>(cells_.size()); }
  RankCell& cell(int rank) const { return *cells_[rank]; }

  bool aborted() const { return header_.abort_state.load(std::memory_order_seq_cst) != 0; }
  // Sets the cause and wakes every rank. Only the first call has an effect. `kind` decides the exit
  // code of all ranks.
  void abort(int rank, std::string_view cause, ErrorKind kind = ErrorKind::Runtime);
  std::string cause() const;
  // Returns the first cause with its kind. Waits until it is written.
  Error first_error() const;
  int first_failed_rank() const { return header_.abort_rank.load(std::memory_order_acquire); }
  [[noreturn]] void throw_aborted(int rank, const std::string& during) const;

  void leave(int rank);
  bool has_left(int rank) const { return cells_[rank]->left.load(std::memory_order_acquire) != 0; }

  // Wakes `rank` if it sleeps. Call it after a seq_cst store to memory that the rank polls.
  void ring(int rank) const { ring(cells_[rank]->bell); }
  // Wakes both threads of `rank`; its communication thread may be idle.
  void ring_own(int rank) const {
    ring(cells_[rank]->bell);
    ring(cells_[rank]->own_bell);
  }
  // How to sleep: call announce_sleep, check the condition once more, then sleep with the returned
  // value as `seen`.
  static uint32_t announce_sleep(Doorbell& bell);
  static void cancel_sleep(Doorbell& bell);
  static void sleep(Doorbell& bell, uint32_t seen, int64_t timeout_ns);

  // Called with (rank, error) if this process is the first to know of a failure, to tell other
  // hosts.
  std::function<void(int, const Error&)> on_abort;

  // Returns a line such as "rank 0 waits for rank 2 in all_reduce(...), since 1.5 s" for every rank
  // that waits, then the ranks that wait for nobody.
  std::string wait_table(int64_t now_ns) const;

 private:
  static void ring(Doorbell& bell) {
    if (bell.sleepers.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      wake(bell);
  }
  static void wake(Doorbell& bell);
  void wake_all() const;

  FabricHeader& header_;
  std::vector<RankCell*> cells_;
};

// Called with the world rank at the start of every transfer and announcement. Tests throw or block
// in it.
using FaultHook = std::function<void(int rank)>;

int64_t steady_now_ns();

}  // namespace trireme
