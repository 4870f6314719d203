#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace trireme {

// One block of a group of k data blocks and m parity blocks. All blocks of a group have the same
// length.
struct Block {
  std::span<std::byte> bytes;  // borrowed; a lost block is written here when it is recovered
  uint64_t checksum = 0;       // hash64 of the bytes when the group was encoded
};

// Adds coefficient * from to `to` in GF(2^8), byte by byte. Both have the same length.
void add_product(uint8_t coefficient, std::span<const std::byte> from, std::span<std::byte> to);

// A systematic Reed-Solomon code over GF(2^8): the data blocks stay as they are, and the contents
// of any k of the k + m blocks determine all others. Storage grows by the factor 1 + m / k.
class ReedSolomon {
 public:
  // Returns an error if there is no such code: k >= 1, m >= 0 and k + m <= 255 must hold.
  static Result<ReedSolomon> make(int num_data, int num_parity);

  int num_data() const { return k_; }
  int num_parity() const { return m_; }
  int num_blocks() const { return k_ + m_; }

  // Writes the parity blocks, which follow the k data blocks in `blocks`, and all checksums.
  void encode(std::span<Block> blocks) const;

  // Writes every block whose bytes do not have its checksum and every block that `lost` names, from
  // k blocks that are intact. Returns the indices of the blocks that it wrote, in ascending order.
  // More than m such blocks are an error, and then nothing is written. It is also an error if a
  // block does not have its checksum after its recovery.
  Result<std::vector<int>> recover(std::span<Block> blocks, std::span<const int> lost = {}) const;

  // Writes the blocks `wanted` from the k blocks `given`, whose checksums the caller has compared,
  // and reads no others. It is an error if a block does not have its checksum then.
  Status rebuild(std::span<Block> blocks, std::span<const int> given,
                 std::span<const int> wanted) const;

  // Does the same without checksums.
  void combine(std::span<Block> blocks, std::span<const int> given,
               std::span<const int> wanted) const;

  // The factor of a data block in a parity block.
  uint8_t coefficient(int parity, int data) const {
    return matrix_[size_t((k_ + parity) * k_ + data)];
  }
  // The factors of k given blocks, parity blocks counted from k on, whose sum is the block
  // `wanted`.
  std::vector<uint8_t> coefficients(std::span<const int> given, int wanted) const {
    return rows_from(given, std::span(&wanted, 1));
  }

 private:
  ReedSolomon(int num_data, int num_parity);
  // Returns the blocks that `lost` names or whose checksums are wrong, in ascending order.
  std::vector<int> missing(std::span<const Block> blocks, std::span<const int> lost) const;
  // Returns the rows that express the blocks `wanted` by the blocks `given`, of which there are k.
  std::vector<unsigned char> rows_from(std::span<const int> given,
                                       std::span<const int> wanted) const;

  int k_;
  int m_;
  std::vector<unsigned char> matrix_;  // k + m rows of k coefficients; the first k are the identity
};

}  // namespace trireme
