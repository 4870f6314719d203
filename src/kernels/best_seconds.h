#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace trireme {

// Returns the seconds of the fastest call, which is the speed of an undisturbed machine. Calls at
// least `least_calls` times, and then until the three fastest calls agree within 2 %, which they do
// not while other processes take the cores now and then, or until `most_seconds` are over.
template <typename Body>
double best_seconds(int least_calls, double most_seconds, Body&& body) {
  constexpr int kAgreeing = 3;
  constexpr double kAgreement = 0.02;
  std::vector<double> fastest;  // rising
  double all = 0.0;
  for (int call = 0;; ++call) {
    const bool agree =
        int(fastest.size()) == kAgreeing && fastest.back() <= (1.0 + kAgreement) * fastest.front();
    if (call >= least_calls && (agree || all > most_seconds)) return fastest.front();
    const auto begin = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    all += elapsed.count();
    fastest.insert(std::lower_bound(fastest.begin(), fastest.end(), elapsed.count()),
                   elapsed.count());
    if (int(fastest.size()) > kAgreeing) fastest.pop_back();
  }
}

// Does so for a call that may be shorter than the clock can tell: calls are timed in batches of
// about 0.2 ms.
template <typename Body>
double best_seconds_of_short(double most_seconds, Body&& body) {
  constexpr double kBatchSeconds = 2e-4;
  constexpr int kLeastBatches = 3;
  body();  // touches the memory
  const double once = best_seconds(1, 0.0, body);
  const int calls = int(std::clamp(kBatchSeconds / std::max(once, 1e-9), 1.0, 1e4));
  const auto batch = [&] {
    for (int call = 0; call < calls; ++call) body();
  };
  return std::min(once, best_seconds(kLeastBatches, most_seconds, batch) / calls);
}

}  // namespace trireme
