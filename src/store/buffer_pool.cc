#include "store/buffer_pool.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace trireme {
namespace {

constexpr size_t kBufferPageBytes = 4096;
constexpr size_t kMostSpareBuffers = 4;

}  // namespace

BlockBuffer::BlockBuffer(size_t bytes) : size_(bytes) {
  const size_t rounded =
      (std::max<size_t>(bytes, 1) + kBufferPageBytes - 1) / kBufferPageBytes * kBufferPageBytes;
  bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kBufferPageBytes, rounded)));
  if (bytes_ == nullptr) throw std::bad_alloc();
}

void BlockBuffer::Free::operator()(std::byte* bytes) const { std::free(bytes); }

std::shared_ptr<BlockBuffer> BufferPool::take(size_t bytes) {
  std::unique_ptr<BlockBuffer> buffer;
  {
    const std::lock_guard lock(spare_->mutex);
    const auto fitting = std::ranges::find_if(
        spare_->buffers, [&](const auto& spare) { return spare->bytes().size() >= bytes; });
    if (fitting != spare_->buffers.end()) {
      buffer = std::move(*fitting);
      spare_->buffers.erase(fitting);
    }
  }
  if (buffer == nullptr) buffer = std::make_unique<BlockBuffer>(bytes);
  return {buffer.release(), [spare = spare_](BlockBuffer* returned) {
            std::unique_ptr<BlockBuffer> owned(returned);
            const std::lock_guard lock(spare->mutex);
            if (spare->buffers.size() < kMostSpareBuffers) {
              spare->buffers.push_back(std::move(owned));
            }
          }};
}

}  // namespace trireme
