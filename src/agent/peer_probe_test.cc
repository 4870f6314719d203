#include "agent/peer_probe.h"

#include <gtest/gtest.h>

#include "agent/status_askers.h"
#include "comm/tcp/handshake.h"

namespace trireme {
namespace {

using Names = std::set<std::string>;

// Every set of missing connections of five hosts: those that stay all reach each other, the first
// host stays, and nobody is left out without need.
TEST(HostsToLeaveOut, TheOthersReachEachOtherWhateverIsMissing) {
  const std::vector<std::string> hosts = {"a", "b", "c", "d", "e"};
  for (int missing = 0; missing < 1 << 10; ++missing) {
    std::map<std::string, Names> unreached;
    int pair = 0;
    for (size_t i = 0; i < hosts.size(); ++i) {
      for (size_t j = i + 1; j < hosts.size(); ++j, ++pair) {
        // Only one of the two may have noticed it.
        if ((missing >> pair & 1) != 0)
          unreached[hosts[pair % 2 == 0 ? i : j]].insert(hosts[pair % 2 == 0 ? j : i]);
      }
    }
    const Names left_out = hosts_to_leave_out(hosts, unreached);
    EXPECT_FALSE(left_out.contains("a"));
    EXPECT_EQ(left_out.empty(), missing == 0);
    for (const auto& [host, others] : unreached) {
      if (left_out.contains(host)) continue;
      for (const std::string& other : others) {
        EXPECT_TRUE(left_out.contains(other)) << host << " and " << other << " of " << missing;
      }
    }
  }
}

TEST(HostsToLeaveOut, TheLargerPartStays) {
  const std::vector<std::string> hosts = {"leader", "a", "b", "c"};
  EXPECT_EQ(hosts_to_leave_out(hosts, {{"a", {"b", "c"}}}), (Names{"a"}));
  EXPECT_EQ(hosts_to_leave_out(hosts, {{"c", {"a", "b"}}}), (Names{"c"}));
  EXPECT_EQ(hosts_to_leave_out(hosts, {{"a", {"b"}}}), (Names{"b"}));
}

// An agent is reached only as long as it listens and knows the secret.
TEST(PeerProbe, TellsWhoAnswers) {
  auto listener = listen_at("127.0.0.1:0");
  ASSERT_TRUE(listener.ok());
  Reception reception(std::move(*listener), "secret", {});
  PeerProbe probe("secret", 0.05);
  probe.set_peers({{"here", reception.address()}, {"gone", "127.0.0.1:1"}});
  StatusAskers askers;
  const Deadline deadline = Deadline::after(5.0);
  while (probe.unreached() != Names{"gone"} && deadline.left_ms() > 0) {
    auto arrived = reception.receive({}, judge_of_agents, 5);
    ASSERT_TRUE(arrived.ok());
    for (Reception::Visitor& visitor : *arrived) EXPECT_TRUE(askers.take(visitor));
    EXPECT_FALSE(askers.receive());
  }
  EXPECT_EQ(probe.unreached(), Names{"gone"});
  while (probe.unreached() == Names{"gone"} && deadline.left_ms() > 0) {  // it says nothing now
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(probe.unreached(), (Names{"gone", "here"}));
}

}  // namespace
}  // namespace trireme
