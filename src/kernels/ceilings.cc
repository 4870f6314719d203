#include "kernels/ceilings.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "base/clock.h"
#include "device/buffer.h"
#include "kernels/best_seconds.h"
#include "kernels/ceilings_cpu.h"

namespace trireme {
namespace {

const CeilingLoops& loops_of(Isa isa) {
  switch (isa) {
    case Isa::Avx2:
      return avx2::kCeilingLoops;
    case Isa::Avx512:
      return avx512::kCeilingLoops;
    case Isa::Avx512Bf16:
      return avx512_bf16::kCeilingLoops;
    case Isa::AmxBf16:
      return amx_bf16::kCeilingLoops;
  }
  contract_failure(__FILE__, __LINE__, "isa", "an instruction set without kernels");
}

constexpr double kMostSeconds = 0.3;
// Larger than a core's share of any last-level cache.
constexpr int64_t kBytes = int64_t{64} << 20;
constexpr int64_t kTiles = 64;
constexpr int64_t kTileFloats = kBytes / int64_t{sizeof(float)} / kTiles;

// Computes on all threads until each has a core of its own, for 0.2 s at most. Threads that have
// just been started may share a core until the scheduler spreads them, and would reach half of the
// peak.
void spread_threads(ThreadTeam& team, float (*loop)()) {
  constexpr int64_t kMostNs = 200'000'000, kTilesOfThread = 12;
  const int64_t end_ns = monotonic_ns() + kMostNs;
  std::vector<int> cores(static_cast<size_t>(team.size()));
  do {
    std::fill(cores.begin(), cores.end(), -1);
    team.parallel_for(kTilesOfThread * team.size(), [&](int64_t, int thread) {
      volatile float keep = loop();
      static_cast<void>(keep);
      cores[static_cast<size_t>(thread)] = ::sched_getcpu();
    });
    std::sort(cores.begin(), cores.end());
    const bool have_all_run = cores.front() >= 0;
    if (have_all_run && std::adjacent_find(cores.begin(), cores.end()) == cores.end()) return;
  } while (monotonic_ns() < end_ns);
}

// The number of cores that `num_threads` threads of this process may run on at once.
int cores_of(int num_threads) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return num_threads;
  return std::clamp(CPU_COUNT(&allowed), 1, num_threads);
}

// The speed of the threads while they run: the time in which others have taken their cores does not
// count. Beside processes that never sleep, the threads may wait for each other so long that only
// one of them computes at any moment, and then no call is as fast as the cores are.
double flops_per_s(Stream& stream, float (*loop)(), int64_t flops_of_call) {
  constexpr int kLeastCalls = 6;
  const int num_cores = cores_of(stream.team().size());
  const int64_t num_tiles = 64 * stream.team().size();
  const double seconds = least_seconds(kLeastCalls, kMostSeconds, [&] {
    std::atomic<int64_t> run_ns{0};  // of all threads
    stream.team().parallel_for(num_tiles, [&](int64_t, int) {
      const int64_t begin_ns = thread_cpu_ns();
      volatile float keep = loop();
      static_cast<void>(keep);
      run_ns.fetch_add(thread_cpu_ns() - begin_ns, std::memory_order_relaxed);
    });
    return 1e-9 * double(run_ns.load()) / num_cores;
  });
  return double(num_tiles * flops_of_call) / seconds;
}

// Runs `body` again and again for `seconds`, and returns the number of runs per second.
template <typename Body>
double calls_per_s(double seconds, Body&& body) {
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::duration<double> elapsed{};
  for (int64_t calls = 1;; ++calls) {
    body();
    elapsed = std::chrono::steady_clock::now() - begin;
    if (elapsed.count() >= seconds) return double(calls) / elapsed.count();
  }
}

}  // namespace

SustainedLoops::SustainedLoops(Stream& stream, Isa isa)
    : stream_(stream), loops_(loops_of(isa)), x_(Buffer::allocate(kBytes)) {
  auto* const x = static_cast<float*>(x_.data());
  stream.team().parallel_for(
      kTiles, [&](int64_t tile, int) { std::fill_n(x + tile * kTileFloats, kTileFloats, 1.0f); });
}

SustainedRates SustainedLoops::measure(double seconds) {
  ThreadTeam& team = stream_.team();
  const auto* const x = static_cast<const float*>(x_.data());
  const int64_t num_tiles = 4 * team.size();
  const double flops = double(num_tiles * loops_.flops_of_fp32_call);
  SustainedRates rates;
  rates.flops_per_s = flops * calls_per_s(seconds, [&] {
                        team.parallel_for(num_tiles, [&](int64_t, int) {
                          volatile float keep = loops_.fp32();
                          static_cast<void>(keep);
                        });
                      });
  rates.read_bytes_per_s = double(kBytes) * calls_per_s(seconds, [&] {
                             team.parallel_for(kTiles, [&](int64_t tile, int) {
                               volatile float keep =
                                   loops_.read(x + tile * kTileFloats, kTileFloats);
                               static_cast<void>(keep);
                             });
                           });
  return rates;
}

ComputeCeilings measure_compute_ceilings(Stream& stream, Isa isa) {
  const CeilingLoops& loops = loops_of(isa);
  spread_threads(stream.team(), loops.fp32);
  return {flops_per_s(stream, loops.fp32, loops.flops_of_fp32_call),
          flops_per_s(stream, loops.bf16, loops.flops_of_bf16_call)};
}

Ceilings measure_ceilings(Stream& stream, Isa isa) {
  constexpr int kLeastCalls = 5;
  Buffer x_buffer = Buffer::allocate(kBytes);
  Buffer y_buffer = Buffer::allocate(kBytes);
  float* x = static_cast<float*>(x_buffer.data());
  float* y = static_cast<float*>(y_buffer.data());
  const CeilingLoops& loops = loops_of(isa);
  const auto fill = [&](int64_t tile, int) {
    std::fill_n(x + tile * kTileFloats, kTileFloats, 1.0f);
  };
  const auto read = [&](int64_t tile, int) {
    volatile float keep = loops.read(x + tile * kTileFloats, kTileFloats);
    static_cast<void>(keep);
  };
  const auto copy = [&](int64_t tile, int) {
    loops.copy(x + tile * kTileFloats, y + tile * kTileFloats, kTileFloats);
  };
  ThreadTeam& team = stream.team();
  team.parallel_for(kTiles, fill);
  Ceilings ceilings;
  ceilings.compute = measure_compute_ceilings(stream, isa);
  const double read_s =
      best_seconds(kLeastCalls, kMostSeconds, [&] { team.parallel_for(kTiles, read); });
  const double copy_s =
      best_seconds(kLeastCalls, kMostSeconds, [&] { team.parallel_for(kTiles, copy); });
  ceilings.read_bytes_per_s = double(kBytes) / read_s;
  ceilings.copy_bytes_per_s = double(2 * kBytes) / copy_s;
  return ceilings;
}

}  // namespace trireme
