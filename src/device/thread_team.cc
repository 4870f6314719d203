#include "device/thread_team.h"

#include "base/check.h"
#include "base/clock.h"
#include "device/core_binding.h"

namespace trireme {
namespace {

// Longer than the gap between two kernels of a step, and far shorter than the time slice that
// another process on the same core would use.
constexpr int64_t kSpinNs = 50'000;
constexpr int kSpinsPerLookAtClock = 32;

void relax() { __builtin_ia32_pause(); }

// Returns once value differs from `seen`.
void wait_while_equal(std::atomic<uint32_t>& value, uint32_t seen) {
  const int64_t end_ns = monotonic_ns() + kSpinNs;
  do {
    for (int spin = 0; spin < kSpinsPerLookAtClock; ++spin) {
      if (value.load(std::memory_order_acquire) != seen) return;
      relax();
    }
  } while (monotonic_ns() < end_ns);
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
  TRIREME_CHECK(job.num_tiles <= UINT32_MAX, "a job has at most 2^32 - 1 tiles");
  const int64_t begin_ns = monotonic_ns();
  if (!help_.pays(begin_ns)) {
    for (int64_t tile = 0; tile < job.num_tiles; ++tile) job.call(job.context, tile, 0);
    return;
  }
  open(job);
  const int64_t opened_ns = monotonic_ns();
  const auto num_tiles = static_cast<uint32_t>(job.num_tiles);
  const uint32_t by_caller = take_tiles(0);
  const int64_t wait_ns = monotonic_ns();
  for (uint32_t done = done_.load(std::memory_order_acquire); done != num_tiles - by_caller;
       done = done_.load(std::memory_order_acquire)) {
    wait_while_equal(done_, done);
  }
  const int64_t end_ns = monotonic_ns();
  JobTimes times{.worked_ns = wait_ns - opened_ns};
  // Where the caller has done no tile, nothing tells how long one takes.
  times.saved_ns =
      by_caller == 0 ? end_ns - wait_ns : times.worked_ns * (num_tiles - by_caller) / by_caller;
  times.lost_ns = end_ns - begin_ns - times.worked_ns;
  help_.note(times, end_ns);
  if (help_.is_trusted() != are_bound_) {
    are_bound_ = help_.is_trusted();
    bind_workers(workers_, are_bound_);
  }
}

void ThreadTeam::open(const Job& job) {
  job_ = job;
  done_.store(0, std::memory_order_relaxed);
  const uint64_t generation = generation_.load(std::memory_order_relaxed) + uint64_t{1};
  open_.store(generation << 32 | uint64_t(job.num_tiles), std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
}

void ThreadTeam::work(int thread) {
  while (true) {
    const uint32_t seen = generation_.load(std::memory_order_acquire);
    if (leaving_.load(std::memory_order_relaxed)) return;
    if (const uint32_t num_taken = take_tiles(thread); num_taken > 0) {
      done_.fetch_add(num_taken, std::memory_order_release);
      done_.notify_all();
    }
    wait_while_equal(generation_, seen);
  }
}

uint32_t ThreadTeam::take_tiles(int thread) {
  uint32_t num_taken = 0;
  uint64_t open = open_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(open) != 0) {
    if (!open_.compare_exchange_weak(open, open - 1, std::memory_order_acquire)) continue;
    const int64_t tile = job_.num_tiles - static_cast<uint32_t>(open);
    job_.call(job_.context, tile, thread);
    ++num_taken;
    open = open_.load(std::memory_order_acquire);
  }
  return num_taken;
}

}  // namespace trireme
