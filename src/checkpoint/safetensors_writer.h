#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/result.h"
#include "checkpoint/safetensors.h"

namespace trireme {

// Streams a safetensors file: the header first, then the data in the order of the header, in pieces
// of any size. The file appears under its name complete or not at all.
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> create(const std::string& path,
                                          std::vector<SafetensorsSpec> tensors,
                                          const std::map<std::string, std::string>& metadata,
                                          Progress* progress = nullptr);

  // Appends to the current tensor, and moves to the next one at its end. A piece must not reach
  // beyond the end of its tensor.
  Status write(std::span<const std::byte> bytes);

  struct Written {
    int64_t bytes = 0;                // of the file
    int64_t data_offset = 0;          // where the data of the first tensor begin
    uint64_t header_checksum = 0;     // XXH3-64 of everything before the data
    std::vector<int64_t> offsets;     // begin of each tensor's data, from the start of the file
    std::vector<uint64_t> checksums;  // XXH3-64 of each tensor's data
  };
  // Syncs and renames the file. All data must have been written.
  Result<Written> finish();

 private:
  SafetensorsWriter(std::vector<SafetensorsSpec> tensors, AtomicFile file);
  void close_finished_tensors();

  std::vector<SafetensorsSpec> tensors_;
  AtomicFile file_;
  Written written_;
  int64_t remaining_ = 0;  // bytes missing in the current tensor
  // Hashes the current tensor. It is a pointer because it cannot be moved.
  std::unique_ptr<Hasher64> hasher_;
};

}  // namespace trireme
