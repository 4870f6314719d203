#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace trireme {

// Owns a file descriptor of a TCP socket that never blocks.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// A time of steady_now_ns() at which waiting ends.
struct Deadline {
  int64_t at_ns = 0;
  static Deadline after(double seconds);
  int left_ms() const;  // 0 once it has passed
};

// Addresses are written as HOST:PORT, such as 10.0.0.1:4000 or [::1]:4000. Port 0 takes a free one.
Result<Socket> listen_at(const std::string& address);
// Returns a closed socket if nobody is waiting to be accepted.
Result<Socket> accept_from(const Socket& listener);
// Tries again until the deadline if nobody listens there yet.
Result<Socket> connect_to(const std::string& address, Deadline deadline);
std::string own_address(const Socket& socket);
std::string peer_address(const Socket& socket);
// The address without its port.
std::string host_of(const std::string& address);

// Send or receive all bytes, or return an error that names the address of the peer.
Status send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline);
Status receive_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline);

// Short messages leave at once, and the connection breaks if the host of the peer does not answer
// for this long.
void prepare_for_messages(const Socket& socket, double silence_s);

}  // namespace trireme
