#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/order_statistics.h"
#include "calibrate/cold_operands.h"
#include "kernels/kernel_table.h"

namespace trireme {

// Times the calls of several rounds, in each of which the same calls follow each other. Others that
// take a core for a while disturb one round of three, and the middle one counts.
struct StartBench {
  static constexpr double kRoundSeconds = 0.004;  // of one call
  static constexpr int kLeastCalls = 2;
  static constexpr double kBatchSeconds = 5e-5;  // shorter times are those of several calls

  const KernelTable& kernels;
  Stream& stream;
  ColdOperands& cold;
  const std::function<void()>& together;
  std::vector<std::vector<double>> seconds_of_calls;  // by call and round
  size_t next_call = 0;

  // Seconds of a call, by all rounds so far.
  template <typename Call>
  double seconds(Call&& call) {
    if (next_call == seconds_of_calls.size()) seconds_of_calls.emplace_back();
    std::vector<double>& rounds = seconds_of_calls[next_call++];
    rounds.push_back(seconds_in_round(call));
    return lower_median(rounds);
  }

  // Returns the mean, because a step takes the sum of many calls, slow ones included. All ranks
  // measure for the same time.
  template <typename Call>
  double seconds_in_round(Call&& call) const {
    const auto now_s = [] { return double(monotonic_ns()) * 1e-9; };
    call();  // brings its data to where it finds them when it is called again
    together();
    const double begin_s = now_s();
    call();
    const int batch = int(std::clamp(kBatchSeconds / std::max(now_s() - begin_s, 1e-9), 1.0, 1e4));
    const double first_s = now_s();
    double end_s = first_s;
    int calls = 0;
    while (end_s - begin_s < kRoundSeconds || calls < kLeastCalls * batch) {
      for (int i = 0; i < batch; ++i) call();
      calls += batch;
      end_s = now_s();
    }
    return (end_s - first_s) / calls;
  }
};

}  // namespace trireme
