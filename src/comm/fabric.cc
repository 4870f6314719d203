#include "comm/fabric.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "base/check.h"

namespace trireme {
namespace {

// A waiting thread polls every few milliseconds, except during long reductions. After this time it
// counts as silent.
constexpr int64_t kSilentNs = 50'000'000;

// Uses the shared futex operations, because the words may lie in memory of several processes.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, int64_t timeout_ns) {
  const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}
void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

int64_t steady_now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Fabric::Fabric(FabricHeader& header, std::vector<RankCell*> cells)
    : header_(header), cells_(std::move(cells)) {}

void Fabric::abort(int rank, std::string_view cause, ErrorKind kind) {
  uint32_t running = 0;
  if (!header_.abort_state.compare_exchange_strong(running, 1)) return;
  const size_t length = std::min(cause.size(), sizeof header_.cause - 1);
  std::memcpy(header_.cause, cause.data(), length);
  header_.cause[length] = '\0';
  header_.abort_rank.store(rank, std::memory_order_release);
  header_.abort_kind.store(int32_t(kind), std::memory_order_release);
  header_.abort_state.store(2, std::memory_order_seq_cst);
  wake_all();
  if (on_abort) on_abort(rank, {kind, std::string(cause)});
}

std::string Fabric::cause() const {
  // The writing thread may have lost its core.
  for (int attempt = 0; attempt < 100'000; ++attempt) {
    const uint32_t state = header_.abort_state.load(std::memory_order_acquire);
    if (state == 0) return "";
    if (state == 2) return header_.cause;
    usleep(100);
  }
  return "a rank died while it wrote the cause of its failure";
}

Error Fabric::first_error() const {
  std::string text = cause();  // also waits until the kind is written
  const bool is_written = header_.abort_state.load(std::memory_order_acquire) == 2;
  const auto kind = ErrorKind(header_.abort_kind.load(std::memory_order_acquire));
  return {is_written ? kind : ErrorKind::Runtime, std::move(text)};
}

void Fabric::throw_aborted(int rank, const std::string& during) const {
  throw CommError(fmt::format("rank {}: {} was cancelled: {}", rank, during, cause()));
}

void Fabric::leave(int rank) {
  cells_[rank]->left.store(1, std::memory_order_seq_cst);
  wake_all();
}

void Fabric::wake(Doorbell& bell) {
  bell.rings.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(bell.rings);
}

void Fabric::wake_all() const {
  for (RankCell* cell : cells_) {
    wake(cell->bell);
    wake(cell->own_bell);
  }
}

uint32_t Fabric::announce_sleep(Doorbell& bell) {
  bell.sleepers.fetch_add(1, std::memory_order_seq_cst);
  return bell.rings.load(std::memory_order_seq_cst);
}

void Fabric::cancel_sleep(Doorbell& bell) { bell.sleepers.fetch_sub(1, std::memory_order_seq_cst); }

void Fabric::sleep(Doorbell& bell, uint32_t seen, int64_t timeout_ns) {
  futex_wait(bell.rings, seen, timeout_ns);
  bell.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

std::string Fabric::wait_table(int64_t now_ns) const {
  std::string table;
  std::string idle;
  for (int rank = 0; rank < size(); ++rank) {
    bool waits = false;
    for (const SharedRecord<WaitRecord>& lane : cells_[rank]->waits) {
      const std::optional<WaitRecord> wait = lane.load();
      if (!wait) {
        waits = true;
        table += fmt::format("\n  rank {} has begun to wait, but its record is not complete", rank);
        continue;
      }
      if (wait->since_ns == 0) continue;
      waits = true;
      const std::string whom =
          wait->peer < 0 ? "its own transfers" : fmt::format("rank {}", wait->peer);
      table += fmt::format("\n  rank {} waits for {} in {}, since {:.3f} s", rank, whom,
                           to_string(wait->what), double(now_ns - wait->since_ns) * 1e-9);
    }
    for (int lane = 0; lane < kWaitLanes; ++lane) {
      const int64_t looked = cells_[size_t(rank)]->looked_ns[lane].load(std::memory_order_relaxed);
      if (looked == 0 || now_ns - looked < kSilentNs) continue;
      idle += fmt::format(
          "\n  rank {} does not answer: its {} thread has been in one place for "
          "{:.3f} s",
          rank, lane == 0 ? "calling" : "communication", double(now_ns - looked) * 1e-9);
    }
    if (!waits) {
      idle += fmt::format("\n  rank {} {}", rank,
                          has_left(rank) ? "has left" : "waits for nobody: it computes or hangs");
    }
  }
  return table + idle;
}

}  // namespace trireme
