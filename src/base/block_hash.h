#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

// XXH3-64 of long data whose blocks are hashed where they are made, for example in the registers of
// a kernel. It equals hash64 of the same bytes.
inline constexpr int64_t kHashBlockBytes = 1024;
inline constexpr int64_t kHashStripeBytes = 64;
// Shorter data have another algorithm.
inline constexpr int64_t kLeastBlockHashBytes = 241;

// The stripes of a block are added with this secret, each 8 bytes further on. Its end from byte 128
// on closes the block.
extern const unsigned char kHashSecret[192];

// The hash of the first blocks of the data.
struct BlockHash {
  alignas(64) uint64_t lanes[8] = {0xC2B2AE3D,         0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F,
                                   0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x85EBCA77,
                                   0x27D4EB2F165667C5, 0x9E3779B1};

  // All blocks but the last one, which may be partial, must be added before finish().
  static int64_t num_blocks(int64_t bytes) { return (bytes - 1) / kHashBlockBytes; }
  void add(const std::byte* block);
  // `data` are all bytes, at least kLeastBlockHashBytes; only the last block is read.
  uint64_t finish(std::span<const std::byte> data) const;
};

}  // namespace trireme
