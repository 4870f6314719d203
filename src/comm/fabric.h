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

// What a rank is waiting for, for the report at a deadline and the search for mismatches.
struct WaitRecord {
  int64_t since_ns = 0;  // steady clock; 0: not waiting
  int32_t peer = -1;     // world rank, -1: its own transfers
  int32_t reserved = 0;
  SignatureRecord what;
};

// Rung after a rank's memory was written; counts only while someone sleeps on it.
struct alignas(64) Doorbell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleepers;
};

inline constexpr int kWaitLanes = 2;       // see RankCell
inline constexpr int kWatchedGroups = 64;  // group ids below it take part in the search for cycles

// What one rank shows to all; lies in zeroed memory that they share.
struct RankCell {
  Doorbell bell;
  Doorbell idle_bell;  // of a communication thread with nothing under way: peers do not wake it
  alignas(64) std::atomic<uint32_t> left;  // its function returned
  std::atomic<int32_t> pid;
  // When its calling and its communication thread last looked around; 0: asleep, or not waiting.
  std::atomic<int64_t> looked_ns[kWaitLanes];
  // By group id: collectives that the rank has called, so that its peers know it has not arrived.
  std::atomic<uint64_t> issued[kWatchedGroups];
  // What its calling thread waits for, and the call of either thread that differs from a peer's.
  SharedRecord<WaitRecord> waits[kWaitLanes];
  // What the rank does alone, on files for example, while its peers wait.
  Progress progress;
};

struct FabricHeader {
  std::atomic<uint32_t> abort_state;  // 0 running, 1 the cause is being written, 2 written
  std::atomic<int32_t> abort_rank;
  std::atomic<int32_t> abort_kind;  // an ErrorKind
  char cause[8192];
};

// The state that ranks of one host share about each other's life: who waits for whom, who has left,
// and the first cause of a failure. Borrows its memory.
class Fabric {
 public:
  Fabric(FabricHeader& header, std::vector<RankCell*> cells);

  int size() const { return static_cast<int>(cells_.size()); }
  RankCell& cell(int rank) const { return *cells_[rank]; }

  bool aborted() const { return header_.abort_state.load(std::memory_order_seq_cst) != 0; }
  // The first cause wins and wakes every rank; later calls change nothing. Its kind decides the
  // exit code of all ranks.
  void abort(int rank, std::string_view cause, ErrorKind kind = ErrorKind::Runtime);
  std::string cause() const;
  // The first cause with its kind, once it is written.
  Error first_error() const;
  int first_failed_rank() const { return header_.abort_rank.load(std::memory_order_acquire); }
  [[noreturn]] void throw_aborted(int rank, const std::string& during) const;

  void leave(int rank);
  bool has_left(int rank) const { return cells_[rank]->left.load(std::memory_order_acquire) != 0; }

  // After a seq_cst store to memory that `rank` polls: wakes it if it sleeps.
  void ring(int rank) const { ring(cells_[rank]->bell); }
  // The same between the threads of `rank`, one of which may be idle.
  void ring_own(int rank) const {
    ring(cells_[rank]->bell);
    ring(cells_[rank]->idle_bell);
  }
  // Sleeping: announce, look once more, then sleep; `seen` is announce's answer.
  static uint32_t announce_sleep(Doorbell& bell);
  static void cancel_sleep(Doorbell& bell);
  static void sleep(Doorbell& bell, uint32_t seen, int64_t timeout_ns);

  // Called with (rank, error) when this process is the first to know; spreads to other hosts.
  std::function<void(int, const Error&)> on_abort;

  // "rank 0 waits for rank 2 in all_reduce(...), since 1.5 s", a line for every rank, then the
  // ranks that wait for nobody.
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

// Called with the world rank at the start of every transfer and announcement; tests throw or fall
// silent in it.
using FaultHook = std::function<void(int rank)>;

int64_t steady_now_ns();

}  // namespace trireme
