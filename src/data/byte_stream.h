#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/input_file.h"
#include "base/result.h"

namespace trireme {

enum class Compression { None, Gzip, Zstd };

// Decided by the end of the name: .gz or .zst.
Compression compression_of(const std::string& path);

// The bytes of a file from front to back, decompressed if necessary.
class InputStream {
 public:
  virtual ~InputStream() = default;

  // Fills `out`, except at the end of the file. A compressed file that is damaged or ends early is
  // an error.
  virtual Result<size_t> read(std::span<char> out) = 0;
  // Skips this many decompressed bytes.
  virtual Status skip(int64_t bytes) = 0;
};

// Returns a stream of the decompressed bytes. A stream that is not compressed is returned
// unchanged.
std::unique_ptr<InputStream> unpacked_stream(std::unique_ptr<InputStream> packed,
                                             Compression compression);

// "-" is standard input, without decompression. `open_input` opens names of files that are not on
// this machine, such as store://NAME/PATH.
Result<std::unique_ptr<InputStream>> open_byte_stream(const std::string& path,
                                                      Compression compression,
                                                      const OpenInput& open_input = {});

}  // namespace trireme
