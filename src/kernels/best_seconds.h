#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace trireme {

// Returns the least seconds that a call returns, which is the speed of an undisturbed machine.
// Calls at least `least_calls` times, and then until the three fastest calls agree within 2 %,
// which they do not while other processes take the cores now and then, or until `most_seconds` are
// over.
template <typename Call>
double least_seconds(int least_calls, double most_seconds, Call&& call) {
  constexpr int kAgreeing = 3;
  constexpr double kAgreement = 0.02;
  std::vector<double> fastest;  // rising
  const auto begin = std::chrono::steady_clock::now();
  for (int calls = 0;; ++calls) {
    const bool agree =
        int(fastest.size()) == kAgreeing && fastest.back() <= (1.0 + kAgreement) * fastest.front();
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
    if (calls >= least_calls && (agree || all.count() > most_seconds)) return fastest.front();
    const double seconds = call();
    fastest.insert(std::lower_bound(fastest.begin(), fastest.end(), seconds), seconds);
    if (int(fastest.size()) > kAgreeing) fastest.pop_back();
  }
}

// Returns the seconds of the fastest call of `body`.
template <typename Body>
double best_seconds(int least_calls, double most_seconds, Body&& body) {
  return least_seconds(least_calls, most_seconds, [&] {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return elapsed.count();
  });
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
