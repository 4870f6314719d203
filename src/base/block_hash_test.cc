#include "base/block_hash.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/hash.h"

namespace trireme {
namespace {

TEST(BlockHash, EqualsTheHashOfTheSameBytesAtOnce) {
  std::vector<std::byte> bytes(5000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 31 + i / 251);
  for (auto size = size_t(kLeastBlockHashBytes); size < bytes.size();
       size += size < 3200 ? 1 : 97) {
    const std::span data(bytes.data(), size);
    BlockHash hash;
    for (int64_t block = 0; block < BlockHash::num_blocks(int64_t(size)); ++block) {
      hash.add(data.data() + block * kHashBlockBytes);
    }
    ASSERT_EQ(hash.finish(data), hash64(data)) << size;
  }
}

}  // namespace
}  // namespace trireme
