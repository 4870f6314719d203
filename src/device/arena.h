#pragma once

#include <cstdint>

#include "device/buffer.h"

namespace trireme {

// A planned place in an arena; `bytes` includes the alignment.
struct ArenaBlock {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// One contiguous memory whose blocks were placed by the memory plan. It counts the live bytes, so
// that the planned peak can be compared with the measured one.
class Arena {
 public:
  explicit Arena(int64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Writes every page once. All threads call it, each with its own part.
  void touch(int part, int num_parts);

  // Returns the address of a block, live or not.
  void* place(ArenaBlock block) const;

  // A block is live from acquire to release and may be used only then. Under AddressSanitizer any
  // other use is an error. Its content is whatever was there before.
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
