#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace trireme {

// The times of the newest reads of chunks, by which a read counts as slow. Any thread may call it.
class ReadTimes {
 public:
  void add(int64_t ns);
  // Returns the 95th percentile, or a second while few reads are known.
  int64_t patience_ns() const;
  // Counts a block whose reading begins.
  void begin_block();
  // True if one more block may be decoded only because a read is slow. There is at most one such
  // block for each ten that are begun.
  bool may_hedge();
  // The block was not decoded after all, because its slow read came in time. One of twenty reads is
  // slower than the patience, so most hedges end so.
  void give_back_hedge();
  int64_t num_hedged() const;

 private:
  mutable std::mutex mutex_;
  std::array<int64_t, 256> newest_ = {};
  size_t count_ = 0;
  int64_t num_blocks_ = 0;
  int64_t num_hedged_ = 0;
};

}  // namespace trireme
