#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

// A planned place in an arena; `bytes` includes the alignment.
struct ArenaBlock {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// The blocks that the memory plan has placed in one contiguous memory. It counts the live bytes, so
// that the planned peak can be compared with the measured one.
class Arena {
 public:
  explicit Arena(std::span<std::byte> memory);  // borrowed
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Writes every page once, and asks for huge pages. All threads call it, each with its own part.
  void touch(int part, int num_parts);

  // Returns the address of a block, live or not.
  void* place(ArenaBlock block) const;

  // A block is live from acquire to release and may be used only then. Under AddressSanitizer any
  // other use is an error. Its content is whatever was there before.
  void acquire(ArenaBlock block);
  void release(ArenaBlock block);

  int64_t bytes() const { return int64_t(memory_.size()); }
  int64_t live_bytes() const { return live_; }
  int64_t peak_bytes() const { return peak_; }

 private:
  std::span<std::byte> memory_;
  int64_t live_ = 0;
  int64_t peak_ = 0;
};

}  // namespace trireme
