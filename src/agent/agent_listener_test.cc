#include "agent/agent_listener.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(AgentListener, ListensOnTheNamedInterfaceAlone) {
  for (const std::string host : {"127.0.0.1", "127.0.0.5"}) {
    const Result<Socket> free = listen_for_agents(host, false);
    ASSERT_TRUE(free.ok()) << free.error().message;
    const std::string address = own_address(*free);
    EXPECT_EQ(interface_of(address), host);
    // The port is taken on this interface, and free on others.
    EXPECT_FALSE(listen_for_agents(address, false).ok());
    const Result<Socket> other =
        listen_for_agents("127.0.0.9" + address.substr(host.size()), false);
    ASSERT_TRUE(other.ok()) << other.error().message;
    EXPECT_EQ(own_address(*other), "127.0.0.9" + address.substr(host.size()));
  }
  EXPECT_EQ(interface_of("[::1]:7070"), "[::1]");
}

TEST(AgentListener, AddressesToWhichOtherHostsCannotConnectAreRefused) {
  for (const char* address : {"0.0.0.0", "0.0.0.0:0", "[::]", "[::]:0"}) {
    const Result<Socket> listener = listen_for_agents(address, false);
    ASSERT_FALSE(listener.ok()) << address;
  }
  const std::string why = listen_for_agents("0.0.0.0", false).error().message;
  EXPECT_NE(why.find("give --listen with an address of this host"), std::string::npos) << why;
  EXPECT_FALSE(listen_for_agents("127.0.0.1", true).ok());
  EXPECT_FALSE(listen_for_agents("127.0.0.1:port", false).ok());
}

}  // namespace
}  // namespace trireme
