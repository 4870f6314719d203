#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <utility>

namespace trireme {

// Virtual time: events in order, chance from a seed, and a trace of what has happened.
class SimulatedTime {
 public:
  SimulatedTime(uint64_t seed, bool keeps_trace)
      : seed_(seed), random_(seed * 2 + 1), keeps_trace_(keeps_trace) {}

  // Moves to the next event and lets it happen. False: there is none.
  bool step() {
    if (events_.empty()) return false;
    Event event = std::move(const_cast<Event&>(events_.top()));  // it is taken out at once
    events_.pop();
    now_s_ = event.at_s;
    event.happen();
    return true;
  }
  void at(double at_s, std::function<void()> happen) {
    events_.push({at_s, next_event_++, std::move(happen)});
  }
  void after(double wait_s, std::function<void()> happen) {
    at(now_s_ + wait_s, std::move(happen));
  }
  double now_s() const { return now_s_; }
  int64_t num_events() const { return next_event_; }

  uint64_t next_random() {  // splitmix64
    uint64_t z = (random_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) {
    return low + (high - low) * double(next_random() >> 11) * 0x1p-53;
  }
  uint64_t below(uint64_t n) { return next_random() % n; }

  template <typename... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    if (!keeps_trace_) return;
    trace_ += fmt::format("{:8.3f} {}\n", now_s_, fmt::format(format, std::forward<Args>(args)...));
  }
  // Notes that a law is broken. The first one counts.
  void fail(const std::string& law) {
    if (broken_.empty()) broken_ = fmt::format("seed {} at {:.3f} s: {}", seed_, now_s_, law);
    note("BROKEN: {}", law);
  }
  const std::string& broken() const { return broken_; }
  const std::string& trace() const { return trace_; }

 private:
  struct Event {
    double at_s = 0.0;
    int64_t number = 0;
    std::function<void()> happen;
    bool operator<(const Event& other) const {  // the earliest one is on top
      return std::pair(at_s, number) > std::pair(other.at_s, other.number);
    }
  };

  const uint64_t seed_;
  uint64_t random_;
  const bool keeps_trace_;
  std::priority_queue<Event> events_;
  int64_t next_event_ = 0;
  double now_s_ = 0.0;
  std::string broken_;
  std::string trace_;
};

}  // namespace trireme
