#pragma once

#include <cstdint>

#include "base/clock.h"

namespace trireme {

// Adds the time until its end to a sum: how long training stands still for something.
class Stall {
 public:
  explicit Stall(int64_t& sum_ns) : sum_ns_(sum_ns), begin_ns_(monotonic_ns()) {}
  ~Stall() { sum_ns_ += monotonic_ns() - begin_ns_; }
  Stall(const Stall&) = delete;
  Stall& operator=(const Stall&) = delete;

 private:
  int64_t& sum_ns_;
  const int64_t begin_ns_;
};

}  // namespace trireme
