#include "erasure/reed_solomon.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

namespace trireme {
namespace {

constexpr std::pair<int, int> kCodes[] = {{2, 1}, {4, 2}, {8, 3}};

// The blocks of a group and the memory in which they lie.
struct CodedGroup {
  std::vector<std::vector<std::byte>> memory;
  std::vector<Block> blocks;
};

CodedGroup random_group(const ReedSolomon& code, size_t bytes) {
  std::mt19937 random(unsigned(bytes) + unsigned(code.num_blocks()));
  CodedGroup group;
  group.memory.assign(size_t(code.num_blocks()), std::vector<std::byte>(bytes));
  for (std::vector<std::byte>& block : group.memory) {
    for (std::byte& byte : block) byte = std::byte(random());
    group.blocks.push_back({block});
  }
  code.encode(group.blocks);
  return group;
}

std::vector<int> members(uint32_t subset) {
  std::vector<int> indices;
  for (int index = 0; index < 32; ++index) {
    if (subset >> index & 1) indices.push_back(index);
  }
  return indices;
}

void overwrite(CodedGroup& group, const std::vector<int>& indices) {
  for (const int index : indices) {
    for (std::byte& byte : group.memory[size_t(index)]) byte ^= std::byte(0x5a);
  }
}

// Shift and add, modulo x^8 + x^4 + x^3 + x^2 + 1.
int product(int a, int b) {
  int sum = 0;
  for (; b != 0; b >>= 1, a = a << 1 ^ (a & 0x80 ? 0x11d : 0)) {
    if (b & 1) sum ^= a;
  }
  return sum;
}

int reciprocal(int a) {
  int b = 1;
  while (product(a, b) != 1) ++b;
  return b;
}

TEST(ReedSolomon, ParityIsTheSumOfTheFormula) {
  for (const auto& [k, m] : kCodes) {
    for (const size_t bytes : {1, 63, 64, 1000}) {
      const CodedGroup group = random_group(*ReedSolomon::make(k, m), bytes);
      for (int i = k; i < k + m; ++i) {
        for (size_t at = 0; at < bytes; ++at) {
          int sum = 0;
          for (int j = 0; j < k; ++j) {
            sum ^= product(reciprocal(i ^ j), int(group.memory[size_t(j)][at]));
          }
          ASSERT_EQ(sum, int(group.memory[size_t(i)][at])) << k << "+" << m << " byte " << at;
        }
      }
    }
  }
}

// The last length has more than one piece, of which the last is short.
TEST(ReedSolomon, EverySetOfAtMostMLossesComesBackAndEveryLargerOneIsRefused) {
  for (const auto& [k, m] : kCodes) {
    const ReedSolomon code = *ReedSolomon::make(k, m);
    for (const size_t bytes : {size_t{1}, size_t{100}, (size_t{32} << 10) + 7}) {
      const CodedGroup intact = random_group(code, bytes);
      CodedGroup group = random_group(code, bytes);
      for (uint32_t subset = 0; subset < 1u << (k + m); ++subset) {
        if (std::popcount(subset) > m + 1) continue;
        const std::vector<int> lost = members(subset);
        overwrite(group, lost);
        const auto damaged = group.memory;
        const Result<std::vector<int>> recovered = code.recover(group.blocks);
        if (std::popcount(subset) <= m) {
          ASSERT_TRUE(recovered.ok()) << recovered.error().message;
          EXPECT_EQ(*recovered, lost);
        } else {
          ASSERT_FALSE(recovered.ok());
          EXPECT_EQ(recovered.error().kind, ErrorKind::Damaged);
          EXPECT_TRUE(group.memory == damaged);
          overwrite(group, lost);
        }
        ASSERT_TRUE(group.memory == intact.memory);
      }
    }
  }
}

TEST(ReedSolomon, TheRefusalNamesTheLostBlocksAndTheRemedy) {
  const ReedSolomon code = *ReedSolomon::make(4, 2);
  CodedGroup group = random_group(code, 10);
  const std::vector<int> lost = {0, 3, 5};
  const auto recovered = code.recover(group.blocks, lost);
  ASSERT_FALSE(recovered.ok());
  EXPECT_EQ(recovered.error().message,
            "3 of 6 blocks are lost or damaged (0, 3, 5), and 2 parity blocks recover at most 2; "
            "use an older copy of this data");
}

TEST(ReedSolomon, EveryFlippedBitOfABlockIsFoundAndMended) {
  const ReedSolomon code = *ReedSolomon::make(2, 1);
  CodedGroup group = random_group(code, 40);
  const auto intact = group.memory;
  for (int index = 0; index < code.num_blocks(); ++index) {
    for (int bit = 0; bit < 40 * 8; ++bit) {
      group.memory[size_t(index)][size_t(bit / 8)] ^= std::byte(1 << bit % 8);
      EXPECT_EQ(*code.recover(group.blocks), std::vector<int>{index});
      ASSERT_TRUE(group.memory == intact);
    }
  }
}

TEST(ReedSolomon, ANamedLossIsRecoveredAndAWrongChecksumAfterwardsIsRefused) {
  const ReedSolomon code = *ReedSolomon::make(4, 2);
  CodedGroup group = random_group(code, 100);
  const auto intact = group.memory;
  const std::vector<int> lost = {4, 1};
  EXPECT_EQ(*code.recover(group.blocks, lost), (std::vector<int>{1, 4}));
  EXPECT_TRUE(group.memory == intact);

  ++group.blocks[2].checksum;
  const auto recovered = code.recover(group.blocks);
  ASSERT_FALSE(recovered.ok());
  EXPECT_EQ(recovered.error().message.find("block 2 has a wrong checksum after its recovery"), 0u);
}

TEST(ReedSolomon, CodesThatDoNotExistAreRefused) {
  for (const auto& [k, m] : {std::pair(0, 1), {-1, 2}, {4, -1}, {200, 56}, {256, 0}}) {
    EXPECT_FALSE(ReedSolomon::make(k, m).ok()) << k << "+" << m;
  }
  EXPECT_TRUE(ReedSolomon::make(200, 55).ok());
  EXPECT_TRUE(ReedSolomon::make(1, 0).ok());
}

}  // namespace
}  // namespace trireme
