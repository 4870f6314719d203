#include "comm/shared_board.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "collectives/collective.h"

namespace trireme {
namespace {

constexpr int kRanks = 3;

// Three ranks in one thread that call a barrier, step by step.
class SharedBoardTest : public testing::Test {
 protected:
  SharedBoardTest() {
    SharedView view;
    view.bases.resize(kRanks, nullptr);
    std::vector<RankCell*> cells;
    for (int rank = 0; rank < kRanks; ++rank) {
      cells.push_back(cells_.emplace_back(std::make_unique<RankCell>()).get());
      view.slots.push_back(slots_.emplace_back(std::make_unique<SharedSlot>()).get());
    }
    fabric_ = std::make_unique<Fabric>(header_, cells);
    for (int rank = 0; rank < kRanks; ++rank) {
      boards_.push_back(std::make_unique<SharedBoard>(
          *fabric_, GroupShape{.members = {0, 1, 2}, .rank = rank}, view));
    }
  }

  void arrive(int rank) {
    boards_[size_t(rank)]->start({.signature = &signature_, .collective = Collective::Barrier});
  }
  bool advance(int rank) { return boards_[size_t(rank)]->advance(); }
  // The rank sleeps, until the test ends.
  void sleep(int rank) { Fabric::announce_sleep(cells_[size_t(rank)]->bell); }
  uint32_t rings(int rank) const { return cells_[size_t(rank)]->bell.rings.load(); }

 private:
  FabricHeader header_{};
  std::vector<std::unique_ptr<RankCell>> cells_;
  std::vector<std::unique_ptr<SharedSlot>> slots_;
  std::unique_ptr<Fabric> fabric_;
  Signature signature_{};
  std::vector<std::unique_ptr<SharedBoard>> boards_;
};

TEST_F(SharedBoardTest, TheLastRankToArriveWakesItsPeersAndNobodyElseDoes) {
  for (const int rank : {0, 1}) {
    arrive(rank);
    EXPECT_FALSE(advance(rank));
    sleep(rank);
  }
  EXPECT_EQ(rings(0), 0u);
  arrive(2);
  EXPECT_TRUE(advance(2));
  EXPECT_EQ(rings(0), 1u);
  EXPECT_EQ(rings(1), 1u);
  sleep(2);  // in a later call
  EXPECT_TRUE(advance(0));
  EXPECT_TRUE(advance(1));
  EXPECT_EQ(rings(2), 0u);
}

// Ranks that arrive at the same time may all be the last one.
TEST_F(SharedBoardTest, RanksThatSeeAllOthersAtFirstSightWakeThem) {
  for (const int rank : {0, 1, 2}) arrive(rank);
  sleep(0);
  EXPECT_TRUE(advance(1));
  EXPECT_TRUE(advance(2));
  EXPECT_EQ(rings(0), 2u);
  EXPECT_TRUE(advance(0));
}

}  // namespace
}  // namespace trireme
