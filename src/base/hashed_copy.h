#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

// A range of memory, the place of its copy in a target, and the hash of the copy.
struct HashedCopy {
  const std::byte* from = nullptr;
  int64_t bytes = 0;
  int64_t offset = 0;     // in the target
  uint64_t checksum = 0;  // XXH3-64, once the copy is made
  bool is_made = false;
  bool is_constant = false;  // the range never changes, so a target has to get it only once

  // Copies past the caches, and hashes what is in them. If the range lies in its place already, it
  // is only hashed.
  void make(std::span<std::byte> target);
};

}  // namespace trireme
