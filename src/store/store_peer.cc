#include "store/store_peer.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/clock.h"
#include "comm/tcp/handshake.h"

namespace trireme {
namespace {

// This is short, because connect_to() tries again until its deadline if nobody listens.
constexpr double kConnectingS = 0.25;
constexpr double kGreetingS = 2.0;
constexpr double kPeerSilenceS = 10.0;
// After a failure to connect, calls fail for this long without another try.
constexpr int64_t kAvoidNs = 500'000'000;
constexpr size_t kMostIdle = 8;

Result<StoreReply> exchange(const Socket& socket, const std::string& head,
                            std::span<const std::byte> payload, std::span<std::byte>& to,
                            Deadline deadline) {
  TRIREME_TRY_DONE(send_store_frame(socket, head, payload, deadline));
  std::span<std::byte> room = to;
  TRIREME_TRY(reply, receive_store_frame(socket, room, deadline));
  to = room;
  return unpack_reply(reply);
}

// The handshake is that of ranks and agents, and its refusals speak of these.
Error refusal_of(const Error& error, const std::string& address) {
  if (error.kind != ErrorKind::Usage) return error;
  return usage(fmt::format(
      "{} has another secret; set TRIREME_SECRET to the secret of the servers of the store, and "
      "give an address at which one of them listens",
      address));
}

}  // namespace

Result<Socket> StorePeer::connect(Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return Error{ErrorKind::Runtime, "the store was closed"};
    if (failed_ns_ != 0 && monotonic_ns() - failed_ns_ < kAvoidNs) {
      return Error{ErrorKind::Runtime, fmt::format("{}: could not connect a moment ago", address_)};
    }
  }
  const auto within = [&](double seconds) {
    return Deadline{std::min(Deadline::after(seconds).at_ns, deadline.at_ns)};
  };
  const auto make = [&]() -> Result<Socket> {
    TRIREME_TRY(socket, connect_to(address_, within(kConnectingS)));
    const Status greeted = greet(socket, secret_, {.purpose = Purpose::Agent}, within(kGreetingS));
    if (!greeted.ok()) return refusal_of(greeted.error(), address_);
    prepare_for_messages(socket, kPeerSilenceS);
    return std::move(socket);
  };
  Result<Socket> socket = make();
  const std::lock_guard lock(mutex_);
  failed_ns_ = socket.ok() ? 0 : monotonic_ns();
  return socket;
}

void StorePeer::stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  for (const int fd : busy_) ::shutdown(fd, SHUT_RDWR);
}

Result<StoreReply> StorePeer::ask_over(const Socket& socket, const std::string& head,
                                       std::span<const std::byte> payload, std::span<std::byte>& to,
                                       Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return Error{ErrorKind::Runtime, "the store was closed"};
    busy_.push_back(socket.fd());
  }
  Result<StoreReply> reply = exchange(socket, head, payload, to, deadline);
  const std::lock_guard lock(mutex_);
  std::erase(busy_, socket.fd());
  return reply;
}

Result<StoreReply> StorePeer::ask(StoreRequest request, std::span<const std::byte> payload,
                                  std::span<std::byte>& to, double seconds) {
  const Deadline deadline = Deadline::after(seconds);
  request.deadline_ms = uint32_t(seconds * 1e3);
  const std::string head = pack_request(request);
  for (;;) {
    Socket socket;
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        socket = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    const bool is_old = socket.is_open();
    if (!is_old) {
      TRIREME_TRY(made, connect(deadline));
      socket = std::move(made);
    }
    std::span<std::byte> room = to;
    Result<StoreReply> reply = ask_over(socket, head, payload, room, deadline);
    if (!reply.ok() && is_old && deadline.left_ms() > 0) {
      const std::lock_guard lock(mutex_);
      idle_.clear();  // the server has probably ended since they were used
      continue;
    }
    if (!reply.ok()) return with_context(reply.error(), address_);
    {
      const std::lock_guard lock(mutex_);
      if (idle_.size() < kMostIdle) idle_.push_back(std::move(socket));
    }
    to = room;
    if (reply->error) return *reply->error;
    return reply;
  }
}

Result<StoreReply> StorePeer::ask(StoreRequest request, double seconds) {
  std::span<std::byte> nothing;
  return ask(std::move(request), {}, nothing, seconds);
}

}  // namespace trireme
