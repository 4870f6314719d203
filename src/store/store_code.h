#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "erasure/reed_solomon.h"

namespace trireme {

// A block has num_data chunks of data and num_parity chunks of parity. Any num_data of them are
// enough to recover the others. With one chunk of data, the others are copies of it.
struct StoreCode {
  int num_data = 1;
  int num_parity = 0;

  int num_chunks() const { return num_data + num_parity; }
  // So many chunks must be on disks before a writer stops waiting for slow ones: one fewer than
  // all, so that one slow disk delays nobody, and at least one more than a reader needs.
  int least_written() const { return std::max(num_data + 1, num_data + num_parity - 1); }
  bool operator==(const StoreCode&) const = default;
};

// Parses "K+M" with 1 <= K <= 32 and 1 <= M <= 8, "xor", which is 2+1, or "copies:N" with N from 2
// to 9.
Result<StoreCode> parse_store_code(std::string_view text);
std::string text_of(const StoreCode& code);

// Writes the parity chunks behind the chunks of data and all checksums. The chunks have the same
// length.
void encode_chunks(const StoreCode& code, std::span<Block> chunks);

// Recovers the lost chunks and those whose checksum is wrong. More than num_parity are an error.
Status recover_chunks(const StoreCode& code, std::span<Block> chunks, std::span<const int> lost);

// Writes the chunks `wanted` from num_data chunks `given`, whose checksums the caller has compared.
// It is an error if a chunk does not have its checksum then.
Status rebuild_chunks(const StoreCode& code, std::span<Block> chunks, std::span<const int> given,
                      std::span<const int> wanted);
// The same for one range of every chunk. A range of a chunk that is lost has no checksum that could
// be compared.
void rebuild_parts(const StoreCode& code, std::span<Block> parts, std::span<const int> given,
                   std::span<const int> wanted);

}  // namespace trireme
