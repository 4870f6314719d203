#include "raft/raft_network.h"

#include <sys/socket.h>

#include <system_error>
#include <utility>

#include "base/crc32c.h"
#include "base/failure.h"
#include "raft/packed_bytes.h"

namespace trireme {
namespace {

constexpr uint32_t kMagic = 0x324D5254;  // "TRM2"
constexpr size_t kHeadBytes = 4 + 8 + 8 + 4;
constexpr int64_t kMostMessageBytes = int64_t{4} << 30;  // a snapshot is one message
constexpr size_t kMostFrames = 256;                      // that wait for one server
constexpr size_t kMostQueuedBytes = size_t{64} << 20;    // of these
constexpr size_t kMostPeers = 64;
constexpr double kConnectS = 0.5;
constexpr double kTransferS = 30.0;
constexpr double kSilenceS = 10.0;

// Agents of a job may have the same secret, but they must not be taken for servers of a log.
std::string secret_of_servers(const std::string& secret) { return secret + "/log"; }

std::string head_of_frame(const RaftMessage& message, size_t snapshot_bytes) {
  const std::string body = encode_message_head(message, snapshot_bytes);
  PackedWriter writer;
  writer.number<uint32_t>(kMagic);
  writer.number<int64_t>(int64_t(body.size() + snapshot_bytes));
  writer.number<int64_t>(int64_t(body.size()));
  writer.number<uint32_t>(crc32c(body));
  return writer.raw(body).take();
}

Result<RaftMessage> receive_message(const Socket& socket) {
  const Deadline deadline = Deadline::after(kTransferS);
  std::string head(kHeadBytes, '\0');
  TRIREME_TRY_DONE(receive_all(socket, std::as_writable_bytes(std::span(head)), deadline));
  PackedReader reader(head);
  const uint32_t magic = reader.number<uint32_t>();
  const int64_t body_bytes = reader.number<int64_t>();
  const int64_t checked_bytes = reader.number<int64_t>();
  const uint32_t checksum = reader.number<uint32_t>();
  const bool is_head = magic == kMagic && body_bytes >= 0 && body_bytes <= kMostMessageBytes &&
                       checked_bytes >= 0 && checked_bytes <= body_bytes;
  if (!is_head) return damaged("a message has a wrong head");
  std::string body(size_t(body_bytes), '\0');
  TRIREME_TRY_DONE(receive_all(socket, std::as_writable_bytes(std::span(body)), deadline));
  if (crc32c(std::string_view(body).substr(0, size_t(checked_bytes))) != checksum) {
    return damaged("a message has a wrong checksum");
  }
  TRIREME_TRY(message, decode_message(body));
  // Only a snapshot has a checksum of its own.
  if (checked_bytes != body_bytes && message.snapshot == nullptr) {
    return damaged("a message has a part without a checksum");
  }
  return std::move(message);
}

}  // namespace

RaftNetwork::RaftNetwork(Socket listener, const std::string& secret, TcpLog log,
                         const Receiver& receiver)
    : secret_(secret_of_servers(secret)), log_(std::move(log)), address_(own_address(listener)) {
  const auto receive_one = [receiver](const Socket& socket) -> Status {
    TRIREME_TRY(message, receive_message(socket));
    receiver(std::move(message));
    return Done{};
  };
  visits_ = std::make_unique<Visits>(Reception(std::move(listener), secret_, log_),
                                     VisitLimits{.silence_s = kSilenceS}, log_,
                                     [receive_one] { return receive_one; });
}

RaftNetwork::~RaftNetwork() {
  visits_.reset();  // because those who receive also send
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  for (auto& [address, peer] : peers_) {
    {
      const std::lock_guard lock(peer->mutex);
      peer->is_stopping = true;
      if (peer->fd >= 0) ::shutdown(peer->fd, SHUT_RDWR);
    }
    peer->changed.notify_all();
    peer->thread.join();
  }
}

void RaftNetwork::say(const std::string& sentence) {
  if (log_) log_(sentence);
}

std::shared_ptr<const std::string> RaftNetwork::encoded(
    const std::shared_ptr<const LogSnapshot>& snapshot) {
  std::shared_ptr<const std::string> bytes = snapshot_bytes_.lock();
  if (bytes != nullptr && snapshot_.lock() == snapshot) return bytes;
  bytes = std::make_shared<const std::string>(encode_snapshot(*snapshot));
  snapshot_ = snapshot;
  snapshot_bytes_ = bytes;
  return bytes;
}

// Returns null if messages to this address must be dropped.
RaftNetwork::Peer* RaftNetwork::peer_at(const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return nullptr;
  const auto found = peers_.find(address);
  if (found != peers_.end()) return found->second.get();
  if (peers_.size() >= kMostPeers) return nullptr;
  auto peer = std::make_unique<Peer>();
  try {
    peer->thread = std::thread([this, address, to = peer.get()] { send_frames(address, *to); });
  } catch (const std::system_error& error) {  // a message may be lost, and is sent again
    say("no message goes to " + address + " now: " + error.what());
    return nullptr;
  }
  return (peers_[address] = std::move(peer)).get();
}

void RaftNetwork::send(const std::string& address, const RaftMessage& message) {
  Peer* const peer = address.empty() ? nullptr : peer_at(address);
  if (peer == nullptr) return;
  const bool is_snapshot = message.snapshot != nullptr;
  {
    const std::lock_guard lock(peer->mutex);
    if (is_snapshot && peer->has_snapshot) return;
  }
  Frame frame;
  if (is_snapshot) frame.snapshot = encoded(message.snapshot);
  frame.bytes = head_of_frame(message, is_snapshot ? frame.snapshot->size() : 0);
  const std::lock_guard lock(peer->mutex);
  if (peer->frames.size() >= kMostFrames || peer->queued_bytes > kMostQueuedBytes) return;
  peer->queued_bytes += frame.bytes.size();
  peer->has_snapshot = peer->has_snapshot || is_snapshot;
  peer->frames.push_back(std::move(frame));
  peer->changed.notify_one();
}

Status RaftNetwork::send_frame(const std::string& address, Peer& peer, Socket& socket,
                               const Frame& frame) {
  if (!socket.is_open()) {
    const Deadline deadline = Deadline::after(kConnectS);
    TRIREME_TRY(made, connect_to(address, deadline));
    TRIREME_TRY_DONE(greet(made, secret_, {.purpose = Purpose::Agent}, deadline));
    prepare_for_messages(made, kSilenceS);
    socket = std::move(made);
    const std::lock_guard lock(peer.mutex);
    peer.fd = socket.fd();
    if (peer.is_stopping) return Done{};
  }
  const Deadline deadline = Deadline::after(kTransferS);
  TRIREME_TRY_DONE(send_all(socket, std::as_bytes(std::span(frame.bytes)), deadline));
  if (frame.snapshot == nullptr) return Done{};
  return send_all(socket, std::as_bytes(std::span(*frame.snapshot)), deadline);
}

void RaftNetwork::send_frames(const std::string& address, Peer& peer) {
  Socket socket;
  std::unique_lock lock(peer.mutex);
  while (true) {
    peer.changed.wait(lock, [&] { return peer.is_stopping || !peer.frames.empty(); });
    if (peer.is_stopping) break;
    Frame frame = std::move(peer.frames.front());
    peer.frames.pop_front();
    peer.queued_bytes -= frame.bytes.size();
    lock.unlock();
    Status status = Done{};
    try {
      status = send_frame(address, peer, socket, frame);
    } catch (const std::exception& exception) {
      status = error_of(exception);
      say("a message to " + address + " was lost: " + status.error().message);
    }
    const bool was_snapshot = frame.snapshot != nullptr;
    frame = {};  // so that nobody else keeps the snapshot in memory
    lock.lock();
    if (was_snapshot) peer.has_snapshot = false;
    if (status) continue;
    peer.fd = -1;
    socket = Socket();
    // After a failure nobody waits for old messages any more.
    peer.frames.clear();
    peer.queued_bytes = 0;
    peer.has_snapshot = false;
  }
  peer.fd = -1;
}

}  // namespace trireme
