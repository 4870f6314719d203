#include "agent/mpirun_link.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "agent/job_page.h"
#include "comm/tcp/socket.h"

namespace trireme {
namespace {

constexpr MpirunRank kOwn{.epoch = 4, .rank = 2, .size = 3};

// Waits for one visitor.
MpirunVisitor visitor_of(MpirunDoor& door) {
  const Deadline deadline = Deadline::after(5.0);
  while (deadline.left_ms() > 0) {
    const std::vector<MpirunVisitor> visitors = door.take_visitors();
    if (!visitors.empty()) return visitors.front();
  }
  return {};
}

// A rank says who it is, and shares the page of its agent afterwards. Reports and orders go over
// the same socket.
TEST(MpirunLink, ARankThatComesSharesThePageOfItsAgent) {
  auto door = MpirunDoor::open();
  ASSERT_TRUE(door.ok()) << door.error().message;
  auto page = SharedJobPage::make();
  ASSERT_TRUE(page.ok());
  (*page)->step = 17;
  auto joining =
      std::async(std::launch::async, [&] { return join_mpirun_agent(door->name(), kOwn); });
  const MpirunVisitor visitor = visitor_of(*door);
  EXPECT_EQ(visitor.rank.epoch, kOwn.epoch);
  EXPECT_EQ(visitor.rank.rank, kOwn.rank);
  EXPECT_EQ(visitor.rank.size, kOwn.size);
  EXPECT_EQ(visitor.pid, ::getpid());
  ASSERT_TRUE(give_page(visitor, page->fd()));
  auto joined = joining.get();
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  auto link = RankLink::open(*joined);
  ASSERT_TRUE(link.ok());
  EXPECT_EQ(link->page().step, 17);
  link->page().step = 18;
  EXPECT_EQ((*page)->step, 18);
  const AgentWatch watch(joined->socket);  // the agent lives, so it must not end this process
  ::close(visitor.socket);
  EXPECT_FALSE(link->receive_order(1).has_value());
}

TEST(MpirunLink, ARankThatIsNotWantedAndOneWithoutAnAgentEndWithAnError) {
  auto door = MpirunDoor::open();
  ASSERT_TRUE(door.ok());
  auto joining =
      std::async(std::launch::async, [&] { return join_mpirun_agent(door->name(), kOwn); });
  ::close(visitor_of(*door).socket);
  const auto joined = joining.get();
  ASSERT_FALSE(joined.ok());
  EXPECT_NE(joined.error().message.find("does not want rank 2 of epoch 4"), std::string::npos);
  EXPECT_FALSE(join_mpirun_agent("trireme-nobody", kOwn).ok());
}

}  // namespace
}  // namespace trireme
