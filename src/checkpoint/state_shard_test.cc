#include "checkpoint/state_shard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/hash.h"
#include "checkpoint/check_coverage.h"
#include "device/thread_team.h"

namespace trireme {
namespace {

// Long pieces are cut, whatever slices they are. Their parts cover the tensors, are neighbours in
// the shard, and carry the checksums of their bytes; a copy that was made before is left alone.
TEST(StateShard, CutsLongPiecesIntoNeighbours) {
  const Shape shape{3000, 700};
  std::vector<float> whole(3000 * 700), left(3000 * 400), right(3000 * 300), small(1000);
  for (auto* data : {&whole, &left, &right, &small}) std::iota(data->begin(), data->end(), 0.5f);
  const std::vector<TensorPiece> pieces = {
      {"whole", shape, DType::F32, Slice::whole(shape), whole.data()},
      {"range", shape, DType::F32, Slice::range(0, 3000 * 400), left.data()},
      {"range", shape, DType::F32, Slice::range(3000 * 400, 3000 * 300), right.data()},
      {"box", shape, DType::F32, Slice::box(Shape{0, 0}, Shape{3000, 400}), left.data()},
      {"box", shape, DType::F32, Slice::box(Shape{0, 400}, Shape{3000, 300}), right.data()},
      {"small", Shape{1000}, DType::F32, Slice::whole(Shape{1000}), small.data()}};
  StateShard shard(pieces, 0);
  std::vector<std::byte> memory(size_t(shard.bytes()), std::byte(7));
  HashedCopy& before = shard.copies().back();
  before.is_made = true;
  ThreadTeam team(2);
  shard.complete(memory, team);
  EXPECT_EQ(memory.back(), std::byte(7));
  before.make(memory);

  for (const TensorPiece& piece : pieces) {
    const auto* at = static_cast<const std::byte*>(piece.data);
    const std::byte* const end = at + piece.slice.num_elements() * 4;
    int64_t offset = -1;
    for (const HashedCopy& copy : shard.copies()) {
      if (copy.from != at || at == end) continue;
      EXPECT_TRUE(offset < 0 || copy.offset == offset);
      EXPECT_LE(copy.bytes, int64_t{4} << 20);
      const std::span bytes(memory.data() + copy.offset, size_t(copy.bytes));
      EXPECT_EQ(std::memcmp(bytes.data(), at, bytes.size()), 0);
      EXPECT_EQ(copy.checksum, hash64(bytes));
      at += copy.bytes;
      offset = copy.offset + copy.bytes;
    }
  }
  const IndexPart part = shard.index_part();
  EXPECT_TRUE(check_coverage(part).ok());
  EXPECT_EQ(part.tensors.at("whole").slices.size(), 3u);
  EXPECT_EQ(part.tensors.at("range").slices.size(), 3u);
  EXPECT_EQ(part.tensors.at("box").slices.size(), 3u);
  EXPECT_EQ(part.tensors.at("small").slices.size(), 1u);
}

// What never changes is copied once to each of the memories that take turns, and its checksum
// stays.
TEST(StateShard, CopiesWhatNeverChangesOnceToEachMemory) {
  std::vector<float> constant(5000, 0.5f), trained(3000, 1.0f);
  StateShard shard(
      std::vector<TensorPiece>{
          {"a", Shape{5000}, DType::F32, Slice::whole(Shape{5000}), constant.data()},
          {"b", Shape{3000}, DType::F32, Slice::whole(Shape{3000}), trained.data()}},
      0);
  HashedCopy& copy = shard.copies()[0];
  ASSERT_EQ(copy.from, reinterpret_cast<const std::byte*>(constant.data()));
  copy.is_constant = true;
  ThreadTeam team(2);
  std::vector<std::byte> memories[2];
  for (auto& memory : memories) memory.assign(size_t(shard.bytes()), std::byte(0));
  for (int step = 0; step < 6; ++step) {
    std::vector<std::byte>& memory = memories[step % 2];
    trained[0] = float(step);
    if (step == 2) memory[size_t(copy.offset)] ^= std::byte(1);  // it would be written again
    shard.forget_copies();
    shard.complete(memory, team);
    const auto bytes_at = [&](const HashedCopy& of) {
      return std::span(memory.data() + of.offset, size_t(of.bytes));
    };
    for (const HashedCopy& of : shard.copies()) {
      const bool is_damaged = step % 2 == 0 && step >= 2 && &of == &copy;
      EXPECT_EQ(of.checksum == hash64(bytes_at(of)), !is_damaged) << step;
      EXPECT_EQ(std::memcmp(bytes_at(of).data(), of.from, size_t(of.bytes)) == 0, !is_damaged);
    }
  }
}

}  // namespace
}  // namespace trireme
