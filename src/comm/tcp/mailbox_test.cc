#include "comm/tcp/mailbox.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/clock.h"

namespace trireme {
namespace {

struct Connection {
  Socket caller, visitor;
};

Connection make_connection() {
  const Socket listener = listen_at("127.0.0.1:0").value();
  Connection made{connect_to(own_address(listener), Deadline::after(5)).value(), Socket()};
  const Deadline deadline = Deadline::after(5);
  while (!made.visitor.is_open() && deadline.left_ms() > 0) {
    made.visitor = accept_from(listener).value();
  }
  return made;
}

class Events {
 public:
  explicit Events(int fd) {
    epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u32 = 0}};
    EXPECT_EQ(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event), 0);
  }
  ~Events() { ::close(epoll_); }
  bool come_within(int milliseconds) const {
    epoll_event event;
    return epoll_wait(epoll_, &event, 1, milliseconds) == 1;
  }

 private:
  int epoll_ = epoll_create1(EPOLL_CLOEXEC);
};

TEST(SocketStream, WakesItsReaderOnceEnoughBytesHaveArrived) {
  Connection connection = make_connection();
  const std::array<std::byte, 16> sent = {};
  const auto send = [&](size_t bytes) {
    EXPECT_TRUE(send_all(connection.caller, std::span(sent).first(bytes), Deadline::after(5)).ok());
  };
  SocketStream stream(std::move(connection.visitor));
  const Events events(stream.fd());
  stream.wake_at(10);
  send(1);
  EXPECT_FALSE(events.come_within(50));
  send(9);
  EXPECT_TRUE(events.come_within(5000));
  // A lower mark wakes the reader for bytes that are there already.
  std::array<std::byte, 16> got;
  const iovec part{got.data(), got.size()};
  EXPECT_EQ(stream.read(std::span(&part, 1)), 10);
  send(3);
  EXPECT_FALSE(events.come_within(50));
  stream.wake_at(0);
  EXPECT_TRUE(events.come_within(5000));
}

// Returns the seconds for which the mailbox waits for sockets.
double wait(Mailbox& mailbox) {
  const int64_t begin = monotonic_ns();
  mailbox.wait_for_sockets(10'000'000'000);
  return seconds_since(begin);
}

TEST(Mailbox, AWakeEndsTheWaitForSocketsOrTheNextOne) {
  const auto header = std::make_unique<FabricHeader>();
  const auto first = std::make_unique<RankCell>(), second = std::make_unique<RankCell>();
  Fabric fabric(*header, {first.get(), second.get()});
  Connection connection = make_connection();
  Mailbox mailbox(0, 1, fabric, {});
  mailbox.add_link(1, std::make_unique<SocketStream>(std::move(connection.visitor)));
  mailbox.wait_for_sockets(1'000'000);  // for the news that it can be written to
  std::thread waker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    mailbox.wake();
  });
  const double waited_s = wait(mailbox);
  waker.join();
  EXPECT_GT(waited_s, 0.01);
  EXPECT_LT(waited_s, 5.0);
  // poll() takes the event, and the wait ends nevertheless.
  mailbox.wake();
  EXPECT_FALSE(mailbox.poll());
  EXPECT_LT(wait(mailbox), 5.0);
}

}  // namespace
}  // namespace trireme
