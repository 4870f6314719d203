#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "comm/fabric.h"
#include "comm/tcp/socket.h"

namespace trireme {

// Thrown if the peer has ended the stream or cannot be reached any more.
class StreamClosed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Bytes between two ranks, in both directions and in order. Nothing waits.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Writes as many of the bytes as fit now, and returns their number.
  virtual int64_t write(std::span<const iovec> parts) = 0;
  // Reads as many bytes as there are now, at most those that fit, and returns their number.
  virtual int64_t read(std::span<const iovec> parts) = 0;
  // The peer has begun to send this many bytes. Whoever waits for the stream is woken once they, or
  // a part of some size, have arrived, and not for every packet.
  virtual void wake_at(int64_t /*bytes*/) {}
  virtual void close() {}  // nothing more will be written
  // True if the bytes leave the host, so that checksums go with them.
  virtual bool leaves_host() const { return false; }
  virtual std::string peer() const = 0;  // for reports
};

// Through a socket, between hosts. An edge-triggered epoll set says when to try again.
class SocketStream : public ByteStream {
 public:
  explicit SocketStream(Socket socket);
  int64_t write(std::span<const iovec> parts) override;
  int64_t read(std::span<const iovec> parts) override;
  void wake_at(int64_t bytes) override;
  void close() override;
  std::string peer() const override { return peer_; }
  bool leaves_host() const override { return true; }

  int fd() const { return socket_.fd(); }
  // The epoll set has reported these events.
  void mark_ready(uint32_t events);

 private:
  Socket socket_;
  std::string peer_;
  bool is_readable_ = true;
  bool is_writable_ = true;
  int wake_bytes_ = 1;  // what wake_at() has told the kernel
};

// One direction between two ranks of a host, in zeroed memory of the reader that both see.
struct ByteRing {
  static constexpr int64_t kBytes = int64_t{256} << 10;

  alignas(64) std::atomic<uint64_t> written;  // bytes since the start
  alignas(64) std::atomic<uint64_t> taken;
  alignas(64) std::byte data[kBytes];
};

// Through two rings, within a host.
class RingStream : public ByteStream {
 public:
  // `to` lies in the window of `peer`, `from` in that of this rank.
  RingStream(Fabric& fabric, int peer, ByteRing& to, ByteRing& from)
      : fabric_(fabric), peer_(peer), to_(to), from_(from) {}
  int64_t write(std::span<const iovec> parts) override;
  int64_t read(std::span<const iovec> parts) override;
  std::string peer() const override { return "shared memory"; }

 private:
  Fabric& fabric_;
  int peer_;
  ByteRing& to_;
  ByteRing& from_;
};

}  // namespace trireme
