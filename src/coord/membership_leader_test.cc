#include "coord/membership_leader.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// The agents a, b and c, with the leader on a.
class LeaderOfThree : public testing::Test {
 protected:
  LeaderOfThree() {
    LeaseId lease = 1;
    for (const char* name : {"a", "b", "c"}) {
      view_.agents[name] = {.lease = lease++, .card = {.address = name}};
    }
  }

  // Lets the leader form an epoch. Every agent that it asks answers. Returns the agents that were
  // asked. The ranks of the others count as stopped after a lease.
  std::set<std::string> form(MembershipLeader& leader) {
    std::set<std::string> asked;
    for (int turn = 0; turn < 60; ++turn) {
      now_s_ += 0.1;
      const LeaderOrders orders = leader.act(now_s_, now_s_, view_);
      if (orders.raise_fence > 0) leader.on_fence_raised(orders.raise_fence);
      for (const auto& [name, message] : orders.messages) {
        if (message.kind != MembershipMessage::Kind::Prepare) continue;
        asked.insert(name);
        leader.on_message(now_s_, name,
                          {.kind = MembershipMessage::Kind::Prepared,
                           .epoch = message.epoch,
                           .lease = view_.agents[name].lease});
      }
      if (!orders.record) continue;
      // A later leader reads the record as text.
      view_.record = parse_record(record_text(*orders.record)).value();
      ++view_.record_version;
      if (view_.record.formed.epoch == leader.epoch() && leader.epoch() > 0) break;
    }
    return asked;
  }

  const MembershipOptions options_{.agent = "a", .num_expected = 2, .lease_s = 3.0};
  MembershipView view_;
  double now_s_ = 100.0;
};

TEST_F(LeaderOfThree, ALaterLeaderGoesOnWithoutTheAgentsThatTheFormerOneHasLeftOut) {
  MembershipLeader former(options_);
  former.begin(1, {});
  EXPECT_EQ(form(former), (std::set<std::string>{"a", "b", "c"}));
  former.leave_out({"c"});
  former.begin(1, {"c"});  // the same agent is elected again
  EXPECT_EQ(form(former), (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(view_.record.left_out, (std::vector<std::string>{"c"}));
  EXPECT_EQ(view_.record.formed.find("c"), nullptr);

  MembershipLeader later(options_);
  later.begin(1, view_.record.left_out);
  EXPECT_EQ(form(later), (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(view_.record.left_out, (std::vector<std::string>{"c"}));

  later.leave_out({});
  MembershipLeader last(options_);
  last.begin(1, {});
  EXPECT_EQ(form(last), (std::set<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(view_.record.left_out.empty());
}

TEST_F(LeaderOfThree, ALeaderDoesNotLeaveItselfOut) {
  MembershipLeader leader(options_);
  leader.begin(1, {"a"});
  EXPECT_TRUE(leader.left_out().empty());
  EXPECT_TRUE(form(leader).contains("a"));
}

}  // namespace
}  // namespace trireme
