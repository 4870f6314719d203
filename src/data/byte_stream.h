#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace trireme {

enum class Compression { None, Gzip, Zstd };

// By the end of the name: .gz, .zst.
Compression compression_of(const std::string& path);

// The bytes of a file, unpacked where it is compressed, from front to back.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Fills `out` but for what the end of the file leaves; a compressed file that ends early or is
  // damaged fails.
  virtual Result<size_t> read(std::span<char> out) = 0;
  // Passes over bytes, unpacked ones.
  virtual Status skip(int64_t bytes) = 0;
};

// The unpacked bytes of a stream; one that is not compressed is given back.
std::unique_ptr<ByteStream> unpacked_stream(std::unique_ptr<ByteStream> packed,
                                            Compression compression);

// "-": standard input, as it is.
Result<std::unique_ptr<ByteStream>> open_byte_stream(const std::string& path,
                                                     Compression compression);

}  // namespace trireme
