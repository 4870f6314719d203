#include "comm/tcp/mailbox.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace trireme {
namespace {

constexpr uint32_t kWoken = UINT32_MAX;  // the eventfd in the epoll set, where sockets have ranks

Error broken(const std::string& why) { return {ErrorKind::Runtime, why}; }

}  // namespace

Mailbox::Mailbox(int rank, uint64_t epoch, Fabric& fabric, TcpLog log)
    : rank_(rank),
      epoch_(epoch),
      fabric_(fabric),
      log_(std::move(log)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      peers_(size_t(fabric.size())) {
  // Each write to it is an event, so it is never read.
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u32 = kWoken}};
  TRIREME_CHECK(epoll_ >= 0 && wake_ >= 0 && epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) == 0,
                "no epoll set, or no eventfd in it");
}

Mailbox::~Mailbox() {
  ::close(wake_);
  ::close(epoll_);
}

void Mailbox::add_link(int peer, std::unique_ptr<ByteStream> stream) {
  Peer& place = peer_of(peer);
  place.link = std::make_unique<TcpLink>(peer, epoch_, std::move(stream));
  place.link->on_other_epoch = [this, peer](uint64_t epoch) {
    if (log_ && !std::exchange(other_epoch_said_, true)) {
      log_(
          fmt::format("rank {} has dropped a message of rank {}: it is of epoch {}, and this is "
                      "epoch {}",
                      rank_, peer, epoch, epoch_));
    }
  };
  linked_.push_back(peer);
}

void Mailbox::add_link(int peer, std::unique_ptr<SocketStream> stream) {
  SocketStream* const socket = stream.get();
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u32 = 0}};
  event.data.u32 = uint32_t(peer);
  TRIREME_CHECK(epoll_ctl(epoll_, EPOLL_CTL_ADD, socket->fd(), &event) == 0, "epoll_ctl");
  add_link(peer, std::unique_ptr<ByteStream>(std::move(stream)));
  peer_of(peer).socket = socket;
  sockets_.push_back(peer);
}

Mailbox::Port& Mailbox::port_of(int peer, int group, Lane lane) {
  for (Port& port : peer_of(peer).ports) {
    if (port.group == group && port.lane == lane) return port;
  }
  Port& port = peer_of(peer).ports.emplace_back();
  port.group = group;
  port.lane = lane;
  port.places = std::make_unique<Waiting[]>(size_t(kTcpUntaken));
  // Pages of these exist once a message has used them.
  port.payloads =
      std::make_unique_for_overwrite<std::byte[]>(size_t(kTcpUntaken * kTcpInlineBytes));
  return port;
}

TcpMessage& Mailbox::begin(Transfer& transfer, int peer) {
  if (free_.empty()) {
    TcpMessage& added = messages_.emplace_back();
    added.number = uint32_t(messages_.size() - 1);
    free_.reserve(messages_.size());
    free_.push_back(&added);
  }
  TcpMessage& message = *free_.back();
  free_.pop_back();
  message = {.transfer = &transfer, .number = message.number, .peer = peer};
  if (peer_of(peer).socket != nullptr) ++socket_messages_;
  return message;
}

void Mailbox::end(TcpMessage& message) {
  if (!message.is_done) peer_of(message.peer).link->forget(message);
  if (peer_of(message.peer).socket != nullptr) --socket_messages_;
  message.transfer = nullptr;
  free_.push_back(&message);
}

bool Mailbox::announce(TcpMessage& message, int group) {
  const Transfer& t = *message.transfer;
  Port& port = port_of(message.peer, group, t.lane);
  if (port.announced == kTcpUntaken) return false;
  ++port.announced;
  const SignatureRecord signature = record_of(*t.signature);
  const bool is_short = t.bytes <= kTcpInlineBytes;
  Peer& peer = peer_of(message.peer);
  peer.link->send({.kind = FrameKind::Announce,
                   .lane = t.lane,
                   .group = group,
                   .tag = t.tag,
                   .sender = message.number,
                   .message_bytes = t.bytes},
                  bytes_of(signature), Bytes(t.source, is_short ? size_t(t.bytes) : 0));
  message.is_done = is_short;
  must_look_ = poll_link(peer) || must_look_;
  return true;
}

const Mailbox::Waiting* Mailbox::find(int peer, int group, Lane lane, int tag) {
  Port& port = port_of(peer, group, lane);
  for (int i = 0; i < port.num_waiting; ++i) {
    const Waiting& waiting = port.places[port.order[size_t(i)]];
    if (waiting.frame.tag == tag) return &waiting;
  }
  return nullptr;
}

void Mailbox::take(const Waiting& waiting, TcpMessage& into) {
  const TcpFrame& frame = waiting.frame;
  Peer& peer = peer_of(into.peer);
  Port& port = port_of(into.peer, frame.group, frame.lane);
  const bool is_short = frame.message_bytes <= kTcpInlineBytes;
  if (is_short) {
    land(*into.transfer, 0, waiting.announcement.payload.data(), frame.message_bytes);
  }
  into.is_done = is_short;
  into.is_accepted = true;
  peer.link->send({.kind = is_short ? FrameKind::Taken : FrameKind::Accept,
                   .lane = frame.lane,
                   .group = frame.group,
                   .sender = frame.sender,
                   .receiver = into.number},
                  {});
  const auto place = uint8_t(&waiting - port.places.get());
  port.used &= ~(uint64_t{1} << place);
  const auto end = port.order.begin() + port.num_waiting;
  const auto taken = std::find(port.order.begin(), end, place);
  std::copy(taken + 1, end, taken);
  --port.num_waiting;
  must_look_ = poll_link(peer) || must_look_;
}

Status Mailbox::on_announce(TcpLink& link, const TcpFrame& frame, Bytes body) {
  TRIREME_TRY(announcement, check_announcement(frame, body));
  Port& port = port_of(link.peer(), frame.group, frame.lane);
  if (port.num_waiting == kTcpUntaken) {
    return broken(
        fmt::format("it has sent more than {} messages that were not taken", kTcpUntaken));
  }
  const int place = std::countr_one(port.used);
  port.used |= uint64_t{1} << place;
  port.order[size_t(port.num_waiting++)] = uint8_t(place);
  std::byte* const payload = port.payloads.get() + place * kTcpInlineBytes;
  if (!announcement.payload.empty()) {
    std::memcpy(payload, announcement.payload.data(), announcement.payload.size());
  }
  announcement.payload = Bytes(payload, announcement.payload.size());
  port.places[size_t(place)] = {frame, announcement};
  return Done{};
}

Status Mailbox::on_accept(TcpLink& link, const TcpFrame& frame) {
  const bool is_known = frame.sender < messages_.size();
  TcpMessage* const message = is_known ? &messages_[frame.sender] : nullptr;
  const bool is_awaited = is_known && message->transfer != nullptr && message->transfer->is_send &&
                          message->peer == link.peer() && !message->is_accepted;
  if (!is_awaited) {
    if (fabric_.aborted()) return Done{};  // the transfer was cancelled
    return broken(fmt::format("it has accepted message {}, which was not sent", frame.sender));
  }
  message->is_accepted = true;
  message->number_of_peer = frame.receiver;
  link.send_payload(*message);
  return Done{};
}

Status Mailbox::on_frame(TcpLink& link, const TcpFrame& frame, Bytes body) {
  if (frame.kind == FrameKind::Announce) return on_announce(link, frame, body);
  if (frame.kind == FrameKind::News) {
    TRIREME_TRY(news, check_news(body, fabric_.size()));
    if (on_news) on_news(news);
    return Done{};
  }
  Port& port = port_of(link.peer(), frame.group, frame.lane);
  if (port.announced == 0) return broken("it has taken a message that was not sent");
  --port.announced;
  return frame.kind == FrameKind::Accept ? on_accept(link, frame) : Status(Done{});
}

Result<TcpMessage*> Mailbox::on_payload(TcpLink& link, const TcpFrame& frame) {
  const bool is_known = frame.receiver < messages_.size();
  TcpMessage* const message = is_known ? &messages_[frame.receiver] : nullptr;
  const bool is_awaited = is_known && message->transfer != nullptr && !message->transfer->is_send &&
                          message->is_accepted && message->peer == link.peer() &&
                          frame.body_bytes <= message->transfer->bytes - message->moved;
  if (is_awaited) return message;
  if (fabric_.aborted()) return static_cast<TcpMessage*>(nullptr);
  return broken(fmt::format("it has sent {} bytes for message {}, which does not expect them",
                            frame.body_bytes, frame.receiver));
}

void Mailbox::send_news(const NewsMessage& news) {
  for (int rank : sockets_) {
    Peer& peer = peer_of(rank);
    if (peer.is_closed) continue;
    peer.link->send({.kind = FrameKind::News}, bytes_of(news).first(size_t(news.bytes())));
  }
}

void Mailbox::lose(Peer& peer, const Error& error) {
  peer.is_closed = true;
  const int other = peer.link->peer();
  if (is_leaving_ || fabric_.has_left(other)) return;
  fabric_.abort(other, fmt::format("rank {} has died, or cannot be reached: its connection with "
                                   "rank {} ({}) has ended: {}",
                                   other, rank_, peer.link->stream().peer(), error.message));
}

bool Mailbox::poll_link(Peer& peer) {
  if (peer.is_closed) return false;
  try {
    const Result<bool> received = peer.link->receive(*this);
    if (!received.ok()) {
      lose(peer, received.error());
      return true;
    }
    const bool sent = peer.link->flush();
    return *received || sent;
  } catch (const StreamClosed& closed) {
    lose(peer, {ErrorKind::Runtime, closed.what()});
    return true;
  }
}

void Mailbox::take_events(int64_t most_ns) {
  std::array<epoll_event, 64> events;
  const timespec timeout{most_ns / 1'000'000'000, most_ns % 1'000'000'000};
  const int count = epoll_pwait2(epoll_, events.data(), int(events.size()), &timeout, nullptr);
  for (int i = 0; i < count; ++i) {
    const uint32_t rank = events[size_t(i)].data.u32;
    if (rank == kWoken) {
      must_look_ = true;
    } else {
      peer_of(int(rank)).socket->mark_ready(events[size_t(i)].events);
    }
  }
}

bool Mailbox::poll() {
  if (!sockets_.empty()) take_events(0);
  bool moved = false;
  for (int rank : linked_) moved = poll_link(peer_of(rank)) || moved;
  return moved;
}

void Mailbox::wait_for_sockets(int64_t most_ns) {
  if (!must_look_) take_events(most_ns);
  must_look_ = false;
}

void Mailbox::wake() const { eventfd_write(wake_, 1); }

bool Mailbox::is_finished() const {
  return std::none_of(linked_.begin(), linked_.end(), [&](int rank) {
    const Peer& peer = peers_[size_t(rank)];
    // A rank of this host that has left does not empty its ring any more.
    const bool is_gone = peer.is_closed || (peer.socket == nullptr && fabric_.has_left(rank));
    return !is_gone && peer.link->has_output();
  });
}

void Mailbox::finish(Deadline deadline) {
  is_leaving_ = true;
  while (!is_finished() && deadline.left_ms() > 0) {
    if (!poll()) ::usleep(50);
  }
  for (int rank : sockets_) peer_of(rank).link->close();
  // The connection of a socket that is closed with unread bytes is reset, and the peer may lose
  // what it has not read yet.
  const auto is_open = [&](int rank) { return !peer_of(rank).is_closed; };
  while (std::any_of(sockets_.begin(), sockets_.end(), is_open) && deadline.left_ms() > 0) {
    if (!poll()) take_events(1'000'000);
  }
}

}  // namespace trireme
