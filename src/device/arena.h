#pragma once

#include <cstdint>

#include "device/buffer.h"

namespace trireme {

// A planned place in an arena; `bytes` includes the alignment.
struct ArenaBlock {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// One contiguous memory whose blocks were placed before the run. It counts what is live, so that
// the plan's peak can be compared with what happened.
class Arena {
 public:
  explicit Arena(int64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Every page written once, by all threads that call it with their own part.
  void touch(int part, int num_parts);

  // Where a block lies, whether live or not.
  void* place(ArenaBlock block) const;

  // From acquire to release the block is live and may be used; under AddressSanitizer any other use
  // is an error. Its content is whatever was there before.
  void acquire(ArenaBlock block);
  void release(ArenaBlock block);

  int64_t bytes() const { return bytes_; }
  int64_t live_bytes() const { return live_; }
  int64_t peak_bytes() const { return peak_; }

 private:
  Buffer buffer_;
  int64_t bytes_ = 0;
  int64_t live_ = 0;
  int64_t peak_ = 0;
};

}  // namespace trireme
