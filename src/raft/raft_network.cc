#include "raft/raft_network.h"

#include <poll.h>
#include <sys/socket.h>

#include <utility>

#include "base/crc32c.h"
#include "raft/encoding.h"

namespace trireme {
namespace {

constexpr uint32_t kMagic = 0x314D5254;  // "TRM1"
constexpr size_t kHeadBytes = 4 + 8 + 4;
constexpr int64_t kMostMessageBytes = int64_t{4} << 30;  // a snapshot is one message
constexpr size_t kMostFrames = 256;                      // that wait for one server
constexpr size_t kMostVisits = 256;
constexpr int kPollMs = 50;
constexpr double kConnectS = 0.5;
constexpr double kTransferS = 30.0;
constexpr double kSilenceS = 10.0;

// Agents of a job may have the same secret, but they must not be taken for servers of a log.
std::string secret_of_servers(const std::string& secret) { return secret + "/log"; }

std::string frame_of_message(const RaftMessage& message) {
  const std::string body = encode_message(message);
  std::string frame;
  Encoder encoder(frame);
  encoder.u32(kMagic);
  encoder.i64(int64_t(body.size()));
  encoder.u32(crc32c(body));
  return frame + body;
}

Result<RaftMessage> receive_message(const Socket& socket) {
  const Deadline deadline = Deadline::after(kTransferS);
  std::string head(kHeadBytes, '\0');
  TRIREME_TRY_DONE(receive_all(socket, std::as_writable_bytes(std::span(head)), deadline));
  Decoder decoder(head);
  const uint32_t magic = decoder.u32();
  const int64_t body_bytes = decoder.i64();
  const uint32_t checksum = decoder.u32();
  if (magic != kMagic || body_bytes < 0 || body_bytes > kMostMessageBytes) {
    return damaged("a message has a wrong head");
  }
  std::string body(size_t(body_bytes), '\0');
  TRIREME_TRY_DONE(receive_all(socket, std::as_writable_bytes(std::span(body)), deadline));
  if (crc32c(body) != checksum) return damaged("a message has a wrong checksum");
  return decode_message(body);
}

bool waits_for_bytes(const Socket& socket) {
  pollfd entry{socket.fd(), POLLIN, 0};
  return ::poll(&entry, 1, kPollMs) > 0;
}

}  // namespace

RaftNetwork::RaftNetwork(Socket listener, const std::string& secret, TcpLog log, Receiver receiver)
    : secret_(secret_of_servers(secret)),
      log_(log),
      receiver_(std::move(receiver)),
      reception_(std::move(listener), secret_, std::move(log)),
      address_(reception_.address()),
      thread_([this] { receive_visitors(); }) {}

RaftNetwork::~RaftNetwork() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  thread_.join();
  for (Visit& visit : visits_) {
    ::shutdown(visit.socket.fd(), SHUT_RDWR);
    visit.thread.join();
  }
  for (auto& [address, peer] : peers_) {
    {
      const std::lock_guard lock(peer->mutex);
      peer->is_stopping = true;
    }
    peer->changed.notify_all();
    peer->thread.join();
  }
}

bool RaftNetwork::is_stopping() {
  const std::lock_guard lock(mutex_);
  return is_stopping_;
}

void RaftNetwork::receive_visitors() {
  const auto judge = [](const Hello&) { return Verdict::Welcome; };
  while (!is_stopping()) {
    auto visitors = reception_.receive({.purpose = Purpose::Agent}, judge, kPollMs);
    if (!visitors) {
      if (log_) log_(visitors.error().message);
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
      continue;
    }
    for (auto visit = visits_.begin(); visit != visits_.end();) {
      std::unique_lock lock(mutex_);
      const bool has_ended = visit->has_ended;
      lock.unlock();
      if (has_ended) visit->thread.join();
      visit = has_ended ? visits_.erase(visit) : std::next(visit);
    }
    for (Reception::Visitor& visitor : *visitors) {
      if (visits_.size() >= kMostVisits) break;
      prepare_for_messages(visitor.socket, kSilenceS);
      Visit& visit = visits_.emplace_back();
      visit.socket = std::move(visitor.socket);
      visit.thread = std::thread([this, &visit] { receive_messages(visit); });
    }
  }
}

void RaftNetwork::receive_messages(Visit& visit) {
  const std::string peer = peer_address(visit.socket);
  while (!is_stopping()) {
    if (!waits_for_bytes(visit.socket)) continue;
    Result<RaftMessage> message = receive_message(visit.socket);
    if (!message) {
      if (log_) log_("lost the connection from " + peer + ": " + message.error().message);
      break;
    }
    receiver_(std::move(*message));
  }
  ::shutdown(visit.socket.fd(), SHUT_RDWR);
  const std::lock_guard lock(mutex_);
  visit.has_ended = true;
}

void RaftNetwork::send(const std::string& address, const RaftMessage& message) {
  if (address.empty()) return;
  std::string frame = frame_of_message(message);
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return;
  std::unique_ptr<Peer>& peer = peers_[address];
  if (peer == nullptr) {
    peer = std::make_unique<Peer>();
    peer->thread = std::thread([this, address, to = peer.get()] { send_frames(address, *to); });
  }
  const std::lock_guard peer_lock(peer->mutex);
  if (peer->frames.size() >= kMostFrames) return;
  peer->frames.push_back(std::move(frame));
  peer->changed.notify_one();
}

void RaftNetwork::send_frames(const std::string& address, Peer& peer) {
  Socket socket;
  std::unique_lock lock(peer.mutex);
  while (true) {
    peer.changed.wait(lock, [&] { return peer.is_stopping || !peer.frames.empty(); });
    if (peer.is_stopping) return;
    const std::string frame = std::move(peer.frames.front());
    peer.frames.pop_front();
    lock.unlock();
    if (!socket.is_open()) {
      const Deadline deadline = Deadline::after(kConnectS);
      Result<Socket> made = connect_to(address, deadline);
      if (made && greet(*made, secret_, {.purpose = Purpose::Agent}, deadline)) {
        socket = std::move(*made);
        prepare_for_messages(socket, kSilenceS);
      }
    }
    const bool is_sent =
        socket.is_open() &&
        send_all(socket, std::as_bytes(std::span(frame)), Deadline::after(kTransferS)).ok();
    if (!is_sent) socket = Socket();
    lock.lock();
    // After a failure nobody waits for old messages any more.
    if (!is_sent) peer.frames.clear();
  }
}

}  // namespace trireme
