#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"

namespace trireme {

// Takes the bytes of a file in order.
using FileSink = std::function<Status(std::span<const std::byte>)>;

struct GetTotals {
  int64_t bytes = 0;
  int64_t decoded_blocks = 0;
  std::vector<Move> losses;  // chunks that were found missing or damaged
};

// Reads a file of the store, some blocks ahead, and compares its checksum. Returns an error if a
// byte cannot be recovered. What `sink` got before had the checksums of its chunks.
Result<GetTotals> get_file(Store& store, const std::string& path, const FileSink& sink);
Result<GetTotals> get_file(Store& store, const FileAnswer& file, const FileSink& sink);
// Writes it to a file of this machine, which appears as a whole, and makes the folders above.
Result<GetTotals> get_to_file(Store& store, const FileAnswer& file, const std::string& to);

}  // namespace trireme
