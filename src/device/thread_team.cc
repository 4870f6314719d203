#include "device/thread_team.h"

#include "base/check.h"

namespace trireme {
namespace {

// About 20 microseconds: longer than the gap between two kernels of a step, and far shorter than a
// time slice that another rank on the same core could use.
constexpr int kSpins = 4000;

void relax() { __builtin_ia32_pause(); }

// Returns once value differs from `seen`.
void wait_while_equal(std::atomic<uint32_t>& value, uint32_t seen) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != seen) return;
    relax();
  }
  value.wait(seen, std::memory_order_acquire);
}

}  // namespace

ThreadTeam::ThreadTeam(int num_threads) {
  TRIREME_CHECK(num_threads >= 1, "a team has at least one thread");
  workers_.reserve(num_threads - 1);
  for (int thread = 1; thread < num_threads; ++thread) {
    workers_.emplace_back([this, thread] { work(thread); });
  }
}

ThreadTeam::~ThreadTeam() {
  leaving_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run(const Job& job) {
  job_ = job;
  next_tile_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  take_tiles(0);
  for (uint32_t busy = busy_.load(std::memory_order_acquire); busy != 0;
       busy = busy_.load(std::memory_order_acquire)) {
    wait_while_equal(busy_, busy);
  }
}

void ThreadTeam::work(int thread) {
  uint32_t seen = 0;
  while (true) {
    wait_while_equal(generation_, seen);
    ++seen;  // the team waits for each job, so no generation is skipped
    if (leaving_.load(std::memory_order_relaxed)) return;
    take_tiles(thread);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_all();
  }
}

void ThreadTeam::take_tiles(int thread) {
  while (true) {
    const int64_t tile = next_tile_.fetch_add(1, std::memory_order_relaxed);
    if (tile >= job_.num_tiles) return;
    job_.call(job_.context, tile, thread);
  }
}

}  // namespace trireme
