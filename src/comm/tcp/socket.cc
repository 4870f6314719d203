#include "comm/tcp/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <thread>

#include "comm/fabric.h"

namespace trireme {
namespace {

// Bytes that a socket takes before it has sent those before them. An answer to the peer waits
// behind these.
constexpr int kMostUnsentBytes = 128 << 10;
constexpr auto kRetryEvery = std::chrono::milliseconds(20);

Error socket_error(const std::string& what, int number) {
  return {ErrorKind::Runtime, what + ": " + std::strerror(number)};
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<AddressList> resolve(const std::string& address, bool to_listen) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) {
    return usage(fmt::format("address {}: expected HOST:PORT, such as 10.0.0.1:4000", address));
  }
  const std::string port = address.substr(colon + 1);
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size()) {
    return usage(fmt::format("address {}: a port is a number from 1 to 65535", address));
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = to_listen ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host_of(address).c_str(), port.c_str(), &hints, &found);
  if (failed != 0) {
    return usage(fmt::format("address {}: {}; expected HOST:PORT, such as 10.0.0.1:4000", address,
                             gai_strerror(failed)));
  }
  return AddressList(found, &freeaddrinfo);
}

std::string text_of(const sockaddr_storage& address, socklen_t length) {
  char host[64];
  char port[16];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof host, port,
                  sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  return address.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port)
                                       : fmt::format("{}:{}", host, port);
}

// Waits until the socket is ready. False at the deadline. A signal, such as that by which the agent
// asks for stacks, does not end the wait.
bool wait_for(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  while (true) {
    const int ready = ::poll(&entry, 1, deadline.left_ms());
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

void set(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

Result<Socket> try_connect(const addrinfo& to, const std::string& address, Deadline deadline) {
  Socket made(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.is_open()) return socket_error("socket", errno);
  // The system chose a port for this end. A server may listen there nevertheless, for example one
  // that was down when the port was chosen.
  set(made.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  int number = 0;
  if (::connect(made.fd(), to.ai_addr, to.ai_addrlen) != 0) number = errno;
  if (number == EINPROGRESS) {
    if (!wait_for(made.fd(), POLLOUT, deadline)) return socket_error(address, ETIMEDOUT);
    socklen_t length = sizeof number;
    getsockopt(made.fd(), SOL_SOCKET, SO_ERROR, &number, &length);
  }
  if (number != 0) return socket_error(address, number);
  return made;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Deadline Deadline::after(double seconds) { return {steady_now_ns() + int64_t(seconds * 1e9)}; }

int Deadline::left_ms() const {
  return int(std::clamp<int64_t>((at_ns - steady_now_ns()) / 1'000'000, 0, 1'000'000'000));
}

std::string host_of(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    return host.substr(1, host.size() - 2);
  }
  return host;
}

Result<Socket> listen_at(const std::string& address) {
  TRIREME_TRY(found, resolve(address, true));
  Socket made(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.is_open()) return socket_error("socket", errno);
  set(made.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(made.fd(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(made.fd(), 4096) != 0) {
    return socket_error("listening at " + address, errno);
  }
  return made;
}

Result<Socket> accept_from(const Socket& listener) {
  const int fd = ::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) return Socket(fd);
  const bool is_listening = errno != EBADF && errno != EINVAL && errno != EMFILE;
  if (is_listening) return Socket();  // nobody is there, or the visitor has gone
  return socket_error("accepting at " + own_address(listener), errno);
}

Result<Socket> connect_to(const std::string& address, Deadline deadline) {
  TRIREME_TRY(found, resolve(address, false));
  while (true) {
    Result<Socket> made = try_connect(*found, address, deadline);
    if (made.ok() || deadline.left_ms() == 0) return made;
    std::this_thread::sleep_for(kRetryEvery);
  }
}

std::string own_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  return text_of(address, length);
}

std::string peer_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  return text_of(address, length);
}

Status send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(size_t(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      return socket_error(peer_address(socket), errno);
    } else if (!wait_for(socket.fd(), POLLOUT, deadline) && deadline.left_ms() == 0) {
      return socket_error(peer_address(socket), ETIMEDOUT);
    }
  }
  return Done{};
}

Status receive_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket.fd(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(size_t(got));
    } else if (got == 0) {
      return Error{ErrorKind::Runtime, peer_address(socket) + " has closed the connection"};
    } else if (errno != EAGAIN && errno != EINTR) {
      return socket_error(peer_address(socket), errno);
    } else if (!wait_for(socket.fd(), POLLIN, deadline) && deadline.left_ms() == 0) {
      return socket_error(peer_address(socket), ETIMEDOUT);
    }
  }
  return Done{};
}

void prepare_for_messages(const Socket& socket, double silence_s) {
  set(socket.fd(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, kMostUnsentBytes);
  set(socket.fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket.fd(), IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(socket.fd(), IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket.fd(), IPPROTO_TCP, TCP_KEEPCNT, std::max(1, int(silence_s) - 1));
  set(socket.fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, int(silence_s * 1000));
}

}  // namespace trireme
