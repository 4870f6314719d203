#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <thread>

#include "comm/tcp/tcp_fixture.h"
#include "comm/tcp/tcp_link.h"

namespace trireme {
namespace {

// A rendezvous that gathers one epoch in a thread of its own, and keeps what it has logged.
class Gathering {
 public:
  Gathering(int size, double timeout_s, uint64_t epoch = 1)
      : rendezvous_(Rendezvous::open("127.0.0.1:0", "right", [this](const std::string& text) {
          const std::lock_guard lock(mutex_);
          log_ += text + "\n";
        })) {
    thread_ = std::thread([this, size, timeout_s, epoch] {
      const Deadline deadline = Deadline::after(timeout_s);
      ended_ = rendezvous_->gather(epoch, size, deadline, is_cancelled_);
    });
  }
  ~Gathering() {
    if (thread_.joinable()) thread_.join();
  }
  TcpPlace place(int rank, int size) const {
    return {.rendezvous = rendezvous_->address(), .secret = "right", .rank = rank, .size = size};
  }
  Status join() {
    if (thread_.joinable()) thread_.join();
    return ended_;
  }
  void cancel() { is_cancelled_ = true; }
  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  std::mutex mutex_;
  std::string log_;
  Result<Rendezvous> rendezvous_;
  std::atomic<bool> is_cancelled_{false};
  Status ended_ = Done{};
  std::thread thread_;
};

Status join(const TcpPlace& place) {
  return run_tcp_rank(place, {.timeout_s = 5}, [](World& world) { world.group().barrier(); });
}

std::string refusal(const Status& status) { return status.ok() ? "" : status.error().message; }

TEST(Joining, AWrongOrMissingSecretIsRefusedAndLogged) {
  Gathering gathering(1, 5);
  for (const std::string secret : {"wrong", "", "right "}) {
    TcpPlace place = gathering.place(0, 1);
    place.secret = secret;
    const std::string why = refusal(join(place));
    EXPECT_NE(why.find("the secrets differ"), std::string::npos) << why;
  }
  EXPECT_EQ(refusal(join(gathering.place(0, 1))), "");
  EXPECT_TRUE(gathering.join().ok());
  const std::string log = gathering.log();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 3) << log;
  EXPECT_NE(log.find("refused 127.0.0.1:"), std::string::npos) << log;
}

// Somebody at the address of the rendezvous says welcome, but does not know the secret.
TEST(Joining, AWelcomeWithoutAProofIsNotTrusted) {
  const Deadline deadline = Deadline::after(5);
  const Result<Socket> listener = listen_at("127.0.0.1:0");
  Result<Socket> rank = connect_to(own_address(*listener), deadline);
  Result<Socket> impostor = Socket();
  while (!impostor->is_open()) impostor = accept_from(*listener);
  const Answer answer{.verdict = Verdict::Welcome};
  ASSERT_TRUE(send_all(*impostor, bytes_of(Hello{}), deadline).ok());
  ASSERT_TRUE(send_all(*impostor, bytes_of(answer), deadline).ok());
  const std::string why = refusal(greet(*rank, "right", {.rank = 0, .epoch = 1}, deadline));
  EXPECT_NE(why.find("so it is not trusted"), std::string::npos) << why;
}

TEST(Joining, ARankOfAnotherEpochOrPlaceIsRefused) {
  Gathering gathering(1, 5, 7);
  TcpPlace place = gathering.place(0, 1);
  EXPECT_NE(refusal(join(place)).find("of epoch 1, and the job is in epoch 7"), std::string::npos);
  place.epoch = 7;
  place.rank = 3;
  place.size = 4;
  EXPECT_NE(refusal(join(place)).find("no rank 3"), std::string::npos);
  place.rank = 0;
  place.size = 1;
  EXPECT_EQ(refusal(join(place)), "");
}

TEST(Joining, ASecondProcessOfARankIsRefused) {
  Gathering gathering(2, 5);
  const Deadline deadline = Deadline::after(5);
  std::vector<Socket> sockets;
  std::vector<std::string> answers;
  for (int process = 0; process < 2; ++process) {
    Result<Socket> socket = connect_to(gathering.place(0, 2).rendezvous, deadline);
    ASSERT_TRUE(socket.ok());
    answers.push_back(refusal(greet(*socket, "right", {.rank = 0, .epoch = 1}, deadline)));
    sockets.push_back(std::move(*socket));
  }
  gathering.cancel();
  EXPECT_EQ(answers[0], "");
  EXPECT_NE(answers[1].find("has already joined as rank 0"), std::string::npos) << answers[1];
}

TEST(Joining, RanksThatDoNotComeAreNamed) {
  Gathering gathering(3, 0.3);
  std::thread first([&] { EXPECT_NE(refusal(join(gathering.place(1, 3))), ""); });
  const std::string why = refusal(gathering.join());
  EXPECT_NE(why.find("2 of 3 ranks have not joined"), std::string::npos) << why;
  EXPECT_NE(why.find("0, 2"), std::string::npos) << why;
  first.join();
}

std::vector<std::byte> repeated(size_t count, int value) {
  return std::vector<std::byte>(count, std::byte(value));
}

// Visitors that are no ranks: each is refused with a reason, and none keeps the ranks from meeting.
TEST(Joining, StrangersAreRefusedAndKeepNobodyWaiting) {
  Gathering gathering(2, 10);
  const std::string address = gathering.place(0, 2).rendezvous;
  const Deadline deadline = Deadline::after(5);
  const Hello hello{.rank = 0, .epoch = 1};
  const auto bytes = [](const auto& value) {
    const Bytes view = bytes_of(value);
    return std::vector<std::byte>(view.begin(), view.end());
  };
  std::vector<std::byte> liar = bytes(hello);
  liar.resize(sizeof(Hello) + sizeof(Proof));
  const std::vector<std::vector<std::byte>> speeches = {
      {}, repeated(3, 'x'), repeated(100, 0xff), repeated(100'000, 0), bytes(hello), liar};
  std::vector<Socket> strangers;
  for (const std::vector<std::byte>& speech : speeches) {
    Result<Socket> socket = connect_to(address, deadline);
    ASSERT_TRUE(socket.ok());
    static_cast<void>(send_all(*socket, speech, deadline));  // it may be sent away before its end
    strangers.push_back(std::move(*socket));
  }
  ::shutdown(strangers[1].fd(), SHUT_WR);
  const int64_t begin = steady_now_ns();
  std::thread first([&] { EXPECT_EQ(refusal(join(gathering.place(0, 2))), ""); });
  EXPECT_EQ(refusal(join(gathering.place(1, 2))), "");
  first.join();
  EXPECT_LT(double(steady_now_ns() - begin) * 1e-9, 2.0);
  const std::string log = gathering.log();
  for (const char* why : {"it begins with other bytes", "without a proof", "the secrets differ"}) {
    EXPECT_NE(log.find(why), std::string::npos) << why << ": " << log;
  }
}

TEST(Joining, APortIsANumberThatFitsIntoOne) {
  for (const char* address : {"127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:4000x", "a:http"}) {
    const Result<Socket> listener = listen_at(address);
    ASSERT_FALSE(listener.ok()) << address;
    EXPECT_NE(listener.error().message.find("from 1 to 65535"), std::string::npos);
  }
}

TEST(Joining, AVisitorThatSaysNothingIsRefusedAtItsDeadline) {
  std::string log;
  Reception reception(
      listen_at("127.0.0.1:0").value(), "right", [&](const std::string& text) { log += text; },
      0.1);
  const Deadline deadline = Deadline::after(5);
  const Result<Socket> visitor = connect_to(reception.address(), deadline);
  ASSERT_TRUE(visitor.ok());
  const auto judge = [](const Hello&) { return Verdict::Welcome; };
  while (log.empty() && deadline.left_ms() > 0) {
    ASSERT_TRUE(reception.receive({.epoch = 1}, judge, deadline.left_ms())->empty());
  }
  EXPECT_NE(log.find("has not proved within 0.1 s"), std::string::npos) << log;
  std::array<std::byte, 1> answer;
  EXPECT_FALSE(receive_all(*visitor, answer, deadline).ok());
  EXPECT_GT(deadline.left_ms(), 0);
}

// Keeps the kinds of the frames that it gets.
class Frames : public TcpLink::Receiver {
 public:
  Status on_frame(TcpLink&, const TcpFrame& frame, Bytes body) override {
    if (frame.kind == FrameKind::News) {
      const Result<NewsMessage> news = check_news(body, 2);
      if (!news.ok()) return news.error();
    }
    ++num_frames;
    return Done{};
  }
  Result<TcpMessage*> on_payload(TcpLink&, const TcpFrame&) override { return message; }
  int num_frames = 0;
  TcpMessage* message = nullptr;  // of all payload
};

// A link reads the bytes that a peer has sent before it has closed the connection: this is the
// number of frames, and the reason why the link has broken.
struct Reading {
  int num_frames = 0;
  int num_dropped = 0;
  std::string why;
};
Reading read_bytes(Bytes bytes, Frames&& frames = {}) {
  const Deadline deadline = Deadline::after(5);
  const Result<Socket> listener = listen_at("127.0.0.1:0");
  Result<Socket> writer = connect_to(own_address(*listener), deadline);
  Result<Socket> reader = Socket();
  while (!reader->is_open()) reader = accept_from(*listener);
  auto stream = std::make_unique<SocketStream>(std::move(*reader));
  SocketStream* const socket = stream.get();
  TcpLink link(1, 1, std::move(stream));
  Reading reading;
  link.on_other_epoch = [&](uint64_t) { ++reading.num_dropped; };
  static_cast<void>(send_all(*writer, bytes, deadline));
  ::shutdown(writer->fd(), SHUT_WR);
  try {
    while (reading.why.empty() && deadline.left_ms() > 0) {
      const Result<bool> received = link.receive(frames);
      if (!received.ok()) reading.why = received.error().message;
      socket->mark_ready(EPOLLIN);  // as an epoll set would
    }
  } catch (const StreamClosed& closed) {
    reading.why = closed.what();
  }
  reading.num_frames = frames.num_frames;
  return reading;
}

std::vector<std::byte> news_frame(uint64_t epoch, int64_t body_bytes) {
  const NewsMessage news;
  TcpFrame frame{.kind = FrameKind::News, .epoch = epoch, .body_bytes = body_bytes};
  std::vector<std::byte> bytes;
  const Bytes body = bytes_of(news).first(size_t(news.bytes()));
  frame.body_checksum = body_checksum(body);
  seal(frame);
  const Bytes head = bytes_of(frame);
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

TEST(TcpLink, FramesOfAnotherEpochAreDroppedAndSaid) {
  const int64_t body = NewsMessage{}.bytes();
  std::vector<std::byte> bytes;
  for (const uint64_t epoch : {1, 2, 1, 0, 1}) {
    const std::vector<std::byte> frame = news_frame(epoch, body);
    bytes.insert(bytes.end(), frame.begin(), frame.end());
  }
  const Reading reading = read_bytes(bytes);
  EXPECT_EQ(reading.num_frames, 3);
  EXPECT_EQ(reading.num_dropped, 2);
  EXPECT_EQ(reading.why, "it has closed the connection");
}

TEST(TcpLink, TruncatedOversizedAndForeignFramesBreakIt) {
  const int64_t body = NewsMessage{}.bytes();
  const std::vector<std::byte> whole = news_frame(1, body);
  for (size_t length = 0; length < whole.size(); length += 37) {
    const Reading reading = read_bytes(Bytes(whole).first(length));
    EXPECT_EQ(reading.num_frames, 0);
    EXPECT_EQ(reading.why, "it has closed the connection") << length;
  }
  for (const int64_t length : {int64_t{-1}, int64_t{0}, body - 1, int64_t{1} << 40}) {
    EXPECT_NE(read_bytes(news_frame(1, length)).why.find("bytes of"), std::string::npos) << length;
  }
  EXPECT_NE(read_bytes(repeated(500, 'G')).why.find("not one of Trireme"), std::string::npos);
}

// Keeps what a link writes; nothing arrives.
class WrittenBytes : public ByteStream {
 public:
  explicit WrittenBytes(std::vector<std::byte>& written) : written_(written) {}
  int64_t write(std::span<const iovec> parts) override {
    int64_t bytes = 0;
    for (const iovec& part : parts) {
      const auto* const begin = static_cast<const std::byte*>(part.iov_base);
      written_.insert(written_.end(), begin, begin + part.iov_len);
      bytes += int64_t(part.iov_len);
    }
    return bytes;
  }
  int64_t read(std::span<const iovec>) override { return 0; }
  std::string peer() const override { return "nobody"; }

 private:
  std::vector<std::byte>& written_;
};

// Two ranks exchange long payloads. Once the peer has accepted the payload of this rank, this rank
// can still accept that of the peer, and says so before it writes its own.
TEST(TcpLink, AnAnswerGoesBeforeThePayloadThatWasAcceptedMeanwhile) {
  std::vector<std::byte> written;
  TcpLink link(1, 1, std::make_unique<WrittenBytes>(written));
  const std::vector<std::byte> payload(size_t(3 * kTcpSegmentBytes));
  Transfer transfer{.is_send = true, .bytes = int64_t(payload.size()), .source = payload.data()};
  TcpMessage message{.transfer = &transfer, .is_accepted = true};
  link.send_payload(message);
  EXPECT_TRUE(link.has_output());
  EXPECT_FALSE(link.flush());
  EXPECT_TRUE(written.empty());
  link.send({.kind = FrameKind::Accept}, {});
  while (link.flush()) {
  }
  EXPECT_TRUE(message.is_done);
  EXPECT_FALSE(link.has_output());
  ASSERT_EQ(written.size(), payload.size() + 4 * sizeof(TcpFrame));
  TcpFrame first;
  std::memcpy(&first, written.data(), sizeof first);
  EXPECT_EQ(first.kind, FrameKind::Accept);
}

// Heads and bodies: nothing of a damaged frame reaches its receiver.
TEST(TcpLink, EveryFlippedBitOfAFrameBreaksIt) {
  const std::vector<std::byte> whole = news_frame(1, NewsMessage{}.bytes());
  ASSERT_EQ(read_bytes(whole).num_frames, 1);
  for (size_t bit = 0; bit < 8 * whole.size(); bit += bit < 8 * sizeof(TcpFrame) ? 1 : 37) {
    std::vector<std::byte> bytes = whole;
    bytes[bit / 8] ^= std::byte(1 << (bit % 8));
    const Reading reading = read_bytes(bytes);
    ASSERT_EQ(reading.num_frames + reading.num_dropped, 0) << bit;
    ASSERT_NE(reading.why, "") << bit;
  }
}

// Copied to its target or added to it, in one segment.
TEST(TcpLink, EveryFlippedBitOfPayloadBreaksItAndTheMessageIsNeverDone) {
  std::vector<float> payload(1000, 1.5f), target(payload.size());
  const Bytes body = std::as_bytes(std::span(payload));
  TcpFrame frame{.kind = FrameKind::Payload, .epoch = 1, .body_bytes = int64_t(body.size())};
  frame.body_checksum = body_checksum(body);
  seal(frame);
  const Bytes head = bytes_of(frame);
  std::vector<std::byte> whole(head.begin(), head.end());
  whole.insert(whole.end(), body.begin(), body.end());
  for (const Landing landing : {Landing::Copy, Landing::ReduceRight}) {
    const auto is_done_after = [&](Bytes bytes) {
      Transfer transfer{.bytes = int64_t(body.size()),
                        .target = std::as_writable_bytes(std::span(target)).data(),
                        .landing = landing,
                        .operand = body.data(),
                        .dtype = DType::F32};
      TcpMessage message{.transfer = &transfer};
      Frames frames;
      frames.message = &message;
      const Reading reading = read_bytes(bytes, std::move(frames));
      const bool was_changed = reading.why.find("another checksum") != std::string::npos;
      EXPECT_NE(message.is_done, was_changed) << reading.why;
      return message.is_done;
    };
    EXPECT_TRUE(is_done_after(whole));
    for (size_t bit = 8 * head.size(); bit < 8 * whole.size(); bit += 61) {
      std::vector<std::byte> bytes = whole;
      bytes[bit / 8] ^= std::byte(1 << (bit % 8));
      ASSERT_FALSE(is_done_after(bytes)) << bit;
    }
  }
}

}  // namespace
}  // namespace trireme
