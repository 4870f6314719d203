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

// Streams a safetensors file: the header first, from the table, then the data in the table's order,
// in pieces of any size. The file appears under its name whole or not at all.
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> create(const std::string& path,
                                          std::vector<SafetensorsSpec> tensors,
                                          const std::map<std::string, std::string>& metadata,
                                          Progress* progress = nullptr);

  // Appends to the current tensor and goes on to the next one at its end. A piece must not reach
  // over the end.
  Status write(std::span<const std::byte> bytes);

  struct Written {
    int64_t bytes = 0;                // of the file
    int64_t data_offset = 0;          // where the first tensor's data start
    uint64_t header_checksum = 0;     // XXH3-64 of everything before the data
    std::vector<int64_t> offsets;     // of each tensor's data, from the file's start
    std::vector<uint64_t> checksums;  // XXH3-64 of each tensor's data
  };
  // All data must have been written. Syncs and renames.
  Result<Written> finish();

 private:
  SafetensorsWriter(std::vector<SafetensorsSpec> tensors, AtomicFile file);
  void close_finished_tensors();

  std::vector<SafetensorsSpec> tensors_;
  AtomicFile file_;
  Written written_;
  int64_t remaining_ = 0;             // bytes of the current tensor
  std::unique_ptr<Hasher64> hasher_;  // of the current tensor; not movable itself
};

}  // namespace trireme
