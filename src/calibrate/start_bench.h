#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/order_statistics.h"
#include "calibrate/cold_operands.h"
#include "kernels/kernel_table.h"

namespace trireme {

// Times the calls of several rounds, in each of which the same calls follow each other. Others that
// take a core for a while disturb one round of three, and the middle one counts.
struct StartBench {
  static constexpr double kRoundSeconds = 0.0015;  // of one call
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

  // The lower quartile of the calls, so that a rank that is disturbed now and then does not count,
  // nor one that begins before the others. All ranks measure for the same time.
  template <typename Call>
  double seconds_in_round(Call&& call) const {
    const auto now_s = [] { return double(monotonic_ns()) * 1e-9; };
    call();  // brings its data to where it finds them when it is called again
    together();
    const double begin_s = now_s();
    call();
    const int batch = int(std::clamp(kBatchSeconds / std::max(now_s() - begin_s, 1e-9), 1.0, 1e4));
    std::vector<double> calls;
    while (now_s() - begin_s < kRoundSeconds || int(calls.size()) < kLeastCalls) {
      const double call_s = now_s();
      for (int i = 0; i < batch; ++i) call();
      calls.push_back((now_s() - call_s) / batch);
    }
    return lower_quartile(std::move(calls));
  }
};

}  // namespace trireme
