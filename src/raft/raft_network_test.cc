#include "raft/raft_network.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <vector>

#include "raft/members.h"

namespace trireme {
namespace {

RaftMessage message_of(RaftMessage::Kind kind, int64_t round) {
  RaftMessage message;
  message.kind = kind;
  message.from = 1;
  message.to = 2;
  message.from_address = "127.0.0.1:1";
  message.term = 1;
  message.round = round;
  return message;
}

// Keeps the messages that arrive. Like a slow server, it holds back the first one until go_on().
class SlowReceiver {
 public:
  void take(RaftMessage message) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return may_go_on_; });
    received_.push_back(std::move(message));
    changed_.notify_all();
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    may_go_on_ = true;
    changed_.notify_all();
  }
  std::vector<RaftMessage> wait_for(int64_t round) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10),
                      [&] { return !received_.empty() && received_.back().round == round; });
    return received_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool may_go_on_ = false;
  std::vector<RaftMessage> received_;
};

TEST(RaftNetwork, OneSnapshotAtATimeIsOnTheWayToASlowServer) {
  SlowReceiver slow;
  RaftNetwork to(listen_at("127.0.0.1:0").value(), "secret", {},
                 [&](RaftMessage message) { slow.take(std::move(message)); });
  RaftNetwork from(listen_at("127.0.0.1:0").value(), "secret", {}, [](RaftMessage) {});
  // While the receiver holds this message back, the connection cannot take the whole snapshot.
  from.send(to.address(), message_of(RaftMessage::Kind::Append, 0));
  LogSnapshot state{.index = 5, .term = 1, .members = encode_members({{{1, "a:1"}}})};
  state.state.assign(size_t{32} << 20, 's');
  RaftMessage snapshot = message_of(RaftMessage::Kind::Snapshot, 1);
  snapshot.snapshot = std::make_shared<const LogSnapshot>(state);
  snapshot.index = 5;
  snapshot.log_term = 1;
  for (int again = 0; again < 20; ++again) {
    from.send(to.address(), snapshot);
    snapshot.round += 1;
  }
  from.send(to.address(), message_of(RaftMessage::Kind::Append, 100));
  slow.go_on();
  const std::vector<RaftMessage> received = slow.wait_for(100);
  ASSERT_EQ(received.size(), 3u);
  ASSERT_NE(received[1].snapshot, nullptr);
  EXPECT_EQ(received[1].snapshot->state, state.state);
  EXPECT_EQ(received[1].round, 1);
  // Once it has arrived, the next one may leave.
  snapshot.round = 200;
  from.send(to.address(), snapshot);
  EXPECT_EQ(slow.wait_for(200).size(), 4u);
}

TEST(RaftNetwork, ReceiverThatThrowsEndsItsConnectionAndTheLogSaysWhy) {
  std::mutex mutex;
  std::condition_variable changed;
  std::string sentences;
  std::atomic<bool> throws = true;
  bool has_received = false;
  const auto log = [&](const std::string& sentence) {
    const std::lock_guard lock(mutex);
    sentences += sentence;
    changed.notify_all();
  };
  const auto receive = [&](RaftMessage) {
    if (throws.exchange(false)) throw std::bad_alloc();
    const std::lock_guard lock(mutex);
    has_received = true;
    changed.notify_all();
  };
  RaftNetwork to(listen_at("127.0.0.1:0").value(), "secret", log, receive);
  RaftNetwork from(listen_at("127.0.0.1:0").value(), "secret", {}, [](RaftMessage) {});
  std::unique_lock lock(mutex);
  for (int again = 0; again < 100 && !has_received; ++again) {
    from.send(to.address(), message_of(RaftMessage::Kind::Append, again));
    changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return has_received; });
  }
  EXPECT_TRUE(has_received);
  EXPECT_NE(sentences.find("lost the connection from 127.0.0.1"), std::string::npos) << sentences;
}

}  // namespace
}  // namespace trireme
