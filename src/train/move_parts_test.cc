#include "train/move_parts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "comm/world.h"
#include "erasure/reed_solomon.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class MovePartsTest : public testing::Test {
 protected:
  static constexpr int64_t kBytes = 2 * kMovedAtOnce + 777;

  MovePartsTest() : root_("/dev/shm/trireme-moves-" + std::to_string(::getpid())) {
    for (int rank = 0; rank < 3; ++rank) {
      fs::create_directories(folder(rank));
      std::string bytes(size_t(kBytes), '\0');
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = char(i * size_t(rank + 3) + i / 256);
      std::ofstream(folder(rank) + "/own", std::ios::binary) << bytes;
    }
  }
  ~MovePartsTest() override { fs::remove_all(root_); }

  std::string folder(int rank) const { return root_ + "/" + std::to_string(rank); }
  static std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  static PartMove move(int from, int to, uint8_t coefficient, bool is_first) {
    return {.from = from,
            .to = to,
            .source = "own",
            .target = "sum",
            .bytes = kBytes,
            .coefficient = coefficient,
            .is_first = is_first};
  }
  Status run(Group& ranks, std::span<const PartMove> moves, double timeout_s = 30.0) const {
    std::vector<std::byte> buffer(size_t{kMoveBufferBytes});
    return move_parts(moves, {.ranks = ranks,
                              .rank_of = {0, 1, 2},
                              .source_folder = folder(ranks.rank()),
                              .target_folder = folder(ranks.rank()),
                              .buffer = buffer,
                              .timeout_s = timeout_s});
  }

  std::string root_;
};

// Every rank gets a sum of its own file and those of the others, in several messages.
TEST_F(MovePartsTest, TargetsAreTheSumsOfTheirSources) {
  std::vector<PartMove> moves;
  for (int step = 0; step < 3; ++step) {
    for (int from = 0; from < 3; ++from) {
      moves.push_back(move(from, (from + step) % 3, uint8_t(from + 1), step == 0));
    }
  }
  run_ranks(3, [&](World& world) { EXPECT_TRUE(run(world.group(), moves).ok()); });
  std::string sum(size_t(kBytes), '\0');
  for (int rank = 0; rank < 3; ++rank) {
    const std::string own = bytes_of(folder(rank) + "/own");
    add_product(uint8_t(rank + 1), std::as_bytes(std::span(own)),
                std::as_writable_bytes(std::span(sum)));
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(bytes_of(folder(rank) + "/sum") == sum);
}

// The others get what they need from a rank that cannot write.
TEST_F(MovePartsTest, ARankThatCannotWriteTakesPartToTheEnd) {
  fs::create_directories(folder(1) + "/sum");
  const PartMove moves[] = {move(0, 1, 1, true), move(1, 2, 1, true)};
  run_ranks(3, [&](World& world) {
    const Status moved = run(world.group(), moves);
    EXPECT_EQ(moved.ok(), world.rank() != 1);
    if (!moved.ok()) {
      EXPECT_NE(moved.error().message.find("/1/sum: cannot open"), std::string::npos);
    }
  });
  EXPECT_TRUE(bytes_of(folder(2) + "/sum") == bytes_of(folder(1) + "/own"));
}

TEST_F(MovePartsTest, ASilentRankIsNamedAtTheDeadline) {
  const PartMove moves[] = {move(0, 1, 1, true)};
  try {
    run_ranks(3, [&](World& world) {
      if (world.rank() == 0) {
        while (!world.aborted()) ::usleep(1000);
      } else {
        (void)run(world.group(), moves, 0.2);
      }
    });
    FAIL() << "nobody has noticed";
  } catch (const RankError& failure) {
    EXPECT_EQ(failure.rank(), 0);
    EXPECT_NE(failure.error().message.find("for rank 0 in the exchange of own"), std::string::npos)
        << failure.error().message;
  }
}

}  // namespace
}  // namespace trireme
