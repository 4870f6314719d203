#include "comm/tcp/socket.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Socket, AServerMayListenAtThePortOfAConnectionThatIsOpen) {
  const Result<Socket> listener = listen_at("127.0.0.1:0");
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  const Result<Socket> caller = connect_to(own_address(*listener), Deadline::after(5));
  ASSERT_TRUE(caller.ok()) << caller.error().message;
  const Result<Socket> second = listen_at(own_address(*caller));
  EXPECT_TRUE(second.ok()) << second.error().message;
}

TEST(Socket, ASecondServerAtOneAddressIsRefused) {
  const Result<Socket> listener = listen_at("127.0.0.1:0");
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  EXPECT_FALSE(listen_at(own_address(*listener)).ok());
}

}  // namespace
}  // namespace trireme
