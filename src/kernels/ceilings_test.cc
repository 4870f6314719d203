#include "kernels/ceilings.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "device/isa.h"
#include "kernels/own_stream.h"

namespace trireme {
namespace {

// Threads that compute all the time, as another process would.
class BusyThreads {
 public:
  explicit BusyThreads(int num_threads) {
    for (int i = 0; i < num_threads; ++i) {
      threads_.emplace_back([this] {
        while (!done_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~BusyThreads() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::vector<std::thread> threads_;
};

TEST(Ceilings, ThePeakIsThatOfTheCoresWhateverOthersTakeOfThem) {
  constexpr int kThreads = 2;
  const Isa isa = supported_isas().back();
  OwnStream calm_stream(kThreads);
  const ComputeCeilings calm = measure_compute_ceilings(calm_stream, isa);
  for (const int others : {kThreads, 3 * kThreads}) {
    const BusyThreads busy(others);
    OwnStream stream(kThreads);
    for (int turn = 0; turn < 3; ++turn) {
      const ComputeCeilings measured = measure_compute_ceilings(stream, isa);
      EXPECT_GT(measured.fp32_flops_per_s, 0.6 * calm.fp32_flops_per_s) << others << " others";
      EXPECT_GT(measured.bf16_flops_per_s, 0.6 * calm.bf16_flops_per_s) << others << " others";
    }
  }
}

}  // namespace
}  // namespace trireme
