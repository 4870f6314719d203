#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace trireme {

// The memory of a block, first for its data and then for its parity. It begins at the border of a
// page.
class BlockBuffer {
 public:
  explicit BlockBuffer(size_t bytes);
  std::span<std::byte> bytes() { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  size_t size_;
  std::unique_ptr<std::byte, Free> bytes_;
};

// Keeps buffers so that they are used again. A buffer returns to the pool once its last owner has
// released it, even if this owner is a late read or write of a slow disk. Any thread may call it.
class BufferPool {
 public:
  // Returns a buffer of at least `bytes` bytes, in which older content may be.
  std::shared_ptr<BlockBuffer> take(size_t bytes);

 private:
  struct Spare {
    std::mutex mutex;
    std::vector<std::unique_ptr<BlockBuffer>> buffers;
  };
  std::shared_ptr<Spare> spare_ = std::make_shared<Spare>();  // a late owner may outlive the pool
};

}  // namespace trireme
