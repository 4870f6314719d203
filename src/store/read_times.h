#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace trireme {

// The times of the newest reads of chunks, which say when a read is slow. Any thread may call it.
class ReadTimes {
 public:
  void add(int64_t ns);
  // Returns the 95th percentile, or a second while few reads are known.
  int64_t patience_ns() const;
  // True if one more block may be reconstructed only because a read is slow: at most one of ten is.
  bool may_hedge();
  int64_t num_hedged() const;

 private:
  mutable std::mutex mutex_;
  std::array<int64_t, 256> newest_ = {};
  size_t count_ = 0;
  int64_t num_hedged_ = 0;
};

}  // namespace trireme
