#include "comm/tcp/byte_stream.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace trireme {
namespace {

constexpr int64_t kPieceBytes = int64_t{64} << 10;  // the reader starts on a piece while the next
                                                    // one is written
// A reader that waits for more is woken when so many bytes have arrived: half of the window with
// which a connection begins, so that the sender does not stop meanwhile.
constexpr int64_t kWakeBytes = int64_t{32} << 10;

msghdr message_of(std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  return message;
}

// Copies between a ring, from byte `at` of its stream on, and memory.
template <typename CopyBytes>
void for_each_run(uint64_t at, int64_t bytes, CopyBytes&& copy) {
  const int64_t begin = int64_t(at % uint64_t(ByteRing::kBytes));
  const int64_t first = std::min(bytes, ByteRing::kBytes - begin);
  copy(begin, 0, first);
  if (bytes > first) copy(0, first, bytes - first);
}

}  // namespace

SocketStream::SocketStream(Socket socket)
    : socket_(std::move(socket)), peer_(peer_address(socket_)) {}

void SocketStream::mark_ready(uint32_t events) {
  is_readable_ = is_readable_ || (events & ~uint32_t{EPOLLOUT}) != 0;
  is_writable_ = is_writable_ || (events & ~uint32_t{EPOLLIN}) != 0;
}

int64_t SocketStream::write(std::span<const iovec> parts) {
  if (!is_writable_) return 0;
  const msghdr message = message_of(parts);
  const ssize_t sent = ::sendmsg(socket_.fd(), &message, MSG_NOSIGNAL);
  if (sent >= 0) return sent;
  if (errno != EAGAIN && errno != EINTR) throw StreamClosed(std::strerror(errno));
  is_writable_ = errno == EINTR;
  return 0;
}

int64_t SocketStream::read(std::span<const iovec> parts) {
  if (!is_readable_) return 0;
  msghdr message = message_of(parts);
  const ssize_t got = ::recvmsg(socket_.fd(), &message, 0);
  if (got > 0) return got;
  if (got == 0) throw StreamClosed("it has closed the connection");
  if (errno != EAGAIN && errno != EINTR) throw StreamClosed(std::strerror(errno));
  is_readable_ = errno == EINTR;
  return 0;
}

void SocketStream::wake_at(int64_t bytes) {
  const int wanted = int(std::clamp<int64_t>(bytes, 1, kWakeBytes));
  if (wanted == wake_bytes_) return;
  // If it fails, the reader is woken too often, and nothing else changes.
  if (::setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted) == 0) {
    wake_bytes_ = wanted;
  }
}

void SocketStream::close() { ::shutdown(socket_.fd(), SHUT_WR); }

int64_t RingStream::write(std::span<const iovec> parts) {
  const uint64_t begin = to_.written.load(std::memory_order_relaxed);
  const uint64_t taken = to_.taken.load(std::memory_order_acquire);
  int64_t room = std::min(ByteRing::kBytes - int64_t(begin - taken), kPieceBytes);
  uint64_t at = begin;
  for (const iovec& part : parts) {
    const int64_t bytes = std::min(room, int64_t(part.iov_len));
    if (bytes <= 0) continue;
    const auto* source = static_cast<const std::byte*>(part.iov_base);
    for_each_run(at, bytes, [&](int64_t in_ring, int64_t offset, int64_t count) {
      std::memcpy(to_.data + in_ring, source + offset, size_t(count));
    });
    at += uint64_t(bytes);
    room -= bytes;
  }
  if (at == begin) return 0;
  to_.written.store(at, std::memory_order_seq_cst);
  fabric_.ring(peer_);
  return int64_t(at - begin);
}

int64_t RingStream::read(std::span<const iovec> parts) {
  const uint64_t begin = from_.taken.load(std::memory_order_relaxed);
  const uint64_t written = from_.written.load(std::memory_order_acquire);
  int64_t left = std::min(int64_t(written - begin), kPieceBytes);
  uint64_t at = begin;
  for (const iovec& part : parts) {
    const int64_t bytes = std::min(left, int64_t(part.iov_len));
    if (bytes <= 0) continue;
    auto* target = static_cast<std::byte*>(part.iov_base);
    for_each_run(at, bytes, [&](int64_t in_ring, int64_t offset, int64_t count) {
      std::memcpy(target + offset, from_.data + in_ring, size_t(count));
    });
    at += uint64_t(bytes);
    left -= bytes;
  }
  if (at == begin) return 0;
  from_.taken.store(at, std::memory_order_seq_cst);
  fabric_.ring(peer_);
  return int64_t(at - begin);
}

}  // namespace trireme
