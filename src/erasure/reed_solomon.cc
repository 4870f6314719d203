#include "erasure/reed_solomon.h"

#include <fmt/format.h>
#include <isa-l/erasure_code.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace trireme {
namespace {

// A group of GF(2^8) has so many different rows at most.
constexpr int kMaxBlocks = 255;
// ISA-L expands each coefficient to a table of so many bytes.
constexpr size_t kTableBytes = 32;
// All blocks are coded in pieces of this length, so that the pieces of a group stay in a core's
// cache and their lengths fit ISA-L's int.
constexpr size_t kCodedAtOnce = size_t{32} << 10;

// Computes to[i] = sum over j of rows[i * from.size() + j] * from[j], byte by byte. Calls `visit`
// with the beginning and the length of each piece while the piece is in the cache; also if there is
// nothing to compute.
void multiply(std::vector<unsigned char> rows, const std::vector<std::span<std::byte>>& from,
              const std::vector<std::span<std::byte>>& to,
              const std::function<void(size_t begin, size_t bytes)>& visit) {
  std::vector<unsigned char> tables(kTableBytes * rows.size());
  ec_init_tables(int(from.size()), int(to.size()), rows.data(), tables.data());
  std::vector<unsigned char*> in(from.size()), out(to.size());
  const size_t bytes = from.front().size();
  for (size_t done = 0; done < bytes; done += kCodedAtOnce) {
    const auto at = [&](std::span<std::byte> block) {
      return reinterpret_cast<unsigned char*>(block.data()) + done;
    };
    std::transform(from.begin(), from.end(), in.begin(), at);
    std::transform(to.begin(), to.end(), out.begin(), at);
    const size_t piece = std::min(kCodedAtOnce, bytes - done);
    if (!to.empty()) {
      ec_encode_data(int(piece), int(from.size()), int(to.size()), tables.data(), in.data(),
                     out.data());
    }
    visit(done, piece);
  }
}

// Computes the checksums of blocks piece by piece.
class BlockHashers {
 public:
  explicit BlockHashers(std::vector<std::span<std::byte>> blocks)
      : blocks_(std::move(blocks)), hashers_(blocks_.size()) {}
  void update(size_t begin, size_t bytes) {
    for (size_t block = 0; block < blocks_.size(); ++block) {
      hashers_[block].update(blocks_[block].subspan(begin, bytes));
    }
  }
  uint64_t digest(size_t block) const { return hashers_[block].digest(); }

 private:
  std::vector<std::span<std::byte>> blocks_;
  std::vector<Hasher64> hashers_;
};

std::vector<std::span<std::byte>> bytes_of(std::span<Block> blocks, std::span<const int> indices) {
  std::vector<std::span<std::byte>> bytes;
  for (const int index : indices) bytes.push_back(blocks[size_t(index)].bytes);
  return bytes;
}

void check_lengths(std::span<const Block> blocks, int num_blocks) {
  TRIREME_CHECK(blocks.size() == size_t(num_blocks), "a group has k + m blocks");
  for (const Block& block : blocks) {
    TRIREME_CHECK(block.bytes.size() == blocks.front().bytes.size(),
                  "the blocks of a group have the same length");
  }
}

}  // namespace

void add_product(uint8_t coefficient, std::span<const std::byte> from, std::span<std::byte> to) {
  TRIREME_CHECK(from.size() == to.size() && from.size() <= size_t{1} << 30,
                "both sides of a product have the same length");
  unsigned char table[kTableBytes];
  ec_init_tables(1, 1, &coefficient, table);
  auto* const in = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(from.data()));
  auto* out = reinterpret_cast<unsigned char*>(to.data());
  ec_encode_data_update(int(from.size()), 1, 1, 0, table, in, &out);
}

ReedSolomon::ReedSolomon(int num_data, int num_parity)
    : k_(num_data), m_(num_parity), matrix_(size_t(num_data) * size_t(num_data + num_parity)) {
  // Every square part of a Cauchy matrix is invertible, so any k blocks determine the others.
  // ISA-L's Vandermonde matrix does not have this property for all k and m.
  gf_gen_cauchy1_matrix(matrix_.data(), num_blocks(), k_);
}

Result<ReedSolomon> ReedSolomon::make(int num_data, int num_parity) {
  if (num_data < 1 || num_parity < 0 || num_data > kMaxBlocks - num_parity) {
    return usage(
        fmt::format("a code of {} data and {} parity blocks does not exist: it needs at least one "
                    "data block and at most {} blocks in all",
                    num_data, num_parity, kMaxBlocks));
  }
  return ReedSolomon(num_data, num_parity);
}

void ReedSolomon::encode(std::span<Block> blocks) const {
  check_lengths(blocks, num_blocks());
  std::vector<std::span<std::byte>> data, parity;
  for (const Block& block : blocks.first(size_t(k_))) data.push_back(block.bytes);
  for (const Block& block : blocks.subspan(size_t(k_))) parity.push_back(block.bytes);
  std::vector<std::span<std::byte>> all = data;
  all.insert(all.end(), parity.begin(), parity.end());
  BlockHashers hashers(std::move(all));
  multiply({matrix_.begin() + k_ * k_, matrix_.end()}, data, parity,
           [&](size_t begin, size_t bytes) { hashers.update(begin, bytes); });
  for (size_t block = 0; block < blocks.size(); ++block) {
    blocks[block].checksum = hashers.digest(block);
  }
}

std::vector<int> ReedSolomon::missing(std::span<const Block> blocks,
                                      std::span<const int> lost) const {
  for (const int index : lost) {
    TRIREME_CHECK(index >= 0 && index < num_blocks(), "a lost block is not one of the group");
  }
  std::vector<int> indices;
  for (int index = 0; index < num_blocks(); ++index) {
    const Block& block = blocks[size_t(index)];
    const bool is_lost = std::find(lost.begin(), lost.end(), index) != lost.end();
    if (is_lost || hash64(block.bytes) != block.checksum) indices.push_back(index);
  }
  return indices;
}

std::vector<unsigned char> ReedSolomon::rows_from(std::span<const int> given,
                                                  std::span<const int> wanted) const {
  const size_t k = size_t(k_);
  std::vector<unsigned char> known, inverse(k * k), rows;
  for (const int index : given) {
    const auto row = matrix_.begin() + index * k_;
    known.insert(known.end(), row, row + k_);
  }
  TRIREME_CHECK(gf_invert_matrix(known.data(), inverse.data(), k_) == 0,
                "any k rows of the code are independent");
  for (const int index : wanted) {
    for (size_t column = 0; column < k; ++column) {
      unsigned char sum = 0;
      for (size_t j = 0; j < k; ++j) {
        sum ^= gf_mul(matrix_[size_t(index) * k + j], inverse[j * k + column]);
      }
      rows.push_back(sum);
    }
  }
  return rows;
}

Result<std::vector<int>> ReedSolomon::recover(std::span<Block> blocks,
                                              std::span<const int> lost) const {
  check_lengths(blocks, num_blocks());
  std::vector<int> wanted = missing(blocks, lost);
  if (int(wanted.size()) > m_) {
    return damaged(fmt::format(
        "{} of {} blocks are lost or damaged ({}), and {} parity blocks recover at most "
        "{}; use an older copy of this data",
        wanted.size(), num_blocks(), fmt::join(wanted, ", "), m_, m_));
  }
  if (wanted.empty()) return wanted;
  std::vector<int> given;
  for (int index = 0; int(given.size()) < k_; ++index) {
    if (!std::binary_search(wanted.begin(), wanted.end(), index)) given.push_back(index);
  }
  TRIREME_TRY_DONE(rebuild(blocks, given, wanted));
  return wanted;
}

Status ReedSolomon::rebuild(std::span<Block> blocks, std::span<const int> given,
                            std::span<const int> wanted) const {
  check_lengths(blocks, num_blocks());
  TRIREME_CHECK(int(given.size()) == k_, "k blocks determine the others");
  const std::vector<std::span<std::byte>> to = bytes_of(blocks, wanted);
  BlockHashers hashers(to);
  multiply(rows_from(given, wanted), bytes_of(blocks, given), to,
           [&](size_t begin, size_t bytes) { hashers.update(begin, bytes); });
  for (size_t written = 0; written < wanted.size(); ++written) {
    const int index = wanted[written];
    if (hashers.digest(written) == blocks[size_t(index)].checksum) continue;
    return damaged(
        fmt::format("block {} has a wrong checksum after its recovery, so checksums or "
                    "blocks are of another group; use an older copy of this data",
                    index));
  }
  return Done{};
}

void ReedSolomon::combine(std::span<Block> blocks, std::span<const int> given,
                          std::span<const int> wanted) const {
  check_lengths(blocks, num_blocks());
  TRIREME_CHECK(int(given.size()) == k_, "k blocks determine the others");
  multiply(rows_from(given, wanted), bytes_of(blocks, given), bytes_of(blocks, wanted),
           [](size_t, size_t) {});
}

}  // namespace trireme
