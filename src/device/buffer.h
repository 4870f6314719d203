#pragma once

#include <cstdint>

namespace trireme {

// Owned, page-aligned host memory. Move-only. From 2 MiB on it requests huge pages.
class Buffer {
 public:
  Buffer() = default;
  // Allocates zero-filled memory. Throws DeviceError with the size if the system has no memory
  // left.
  static Buffer allocate(int64_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;   // as asked for
  int64_t mapped_ = 0;  // rounded up to whole pages
};

}  // namespace trireme
