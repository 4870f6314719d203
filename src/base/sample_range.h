#pragma once

#include <cstdint>

namespace trireme {

// Consecutive training samples, by their global numbers.
struct SampleRange {
  int64_t first = 0;
  int64_t count = 0;
  int64_t end() const { return first + count; }
  bool operator==(const SampleRange&) const = default;
};

}  // namespace trireme
