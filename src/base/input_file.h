#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace trireme {

// A regular file open for reading at any offset. Files are read and never mapped: if a file is
// truncated or its disk fails, a read returns an error, but a map would raise SIGBUS. Move-only.
class InputFile {
 public:
  // A folder, a pipe or a device is an error.
  static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }  // size when the file was opened

  // Fills `out` with the bytes from `offset` on, or returns an error with the byte that cannot be
  // read and the reason. Several threads may call it. It allocates no heap memory unless it fails.
  Status read(int64_t offset, std::span<std::byte> out) const;
  // Asks the system to read these bytes ahead.
  void will_read(int64_t offset, int64_t bytes) const;

 private:
  InputFile(std::string path, int fd, int64_t bytes);
  Error failure(int64_t offset, int cause) const;

  std::string path_;
  int fd_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace trireme
