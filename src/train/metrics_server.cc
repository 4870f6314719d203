#include "train/metrics_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "runtime/clock.h"

namespace trireme {
namespace {

constexpr int64_t kClientNs = 2'000'000'000;  // from connecting to the last byte of the answer
constexpr size_t kMostRequestBytes = 8192;

std::string response(const char* status, std::string_view body, std::string_view type) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, type, body.size(), body);
}

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::listen(const std::string& host, int port,
                                                             std::function<std::string()> text) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(port));
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return Error{ErrorKind::Usage,
                 fmt::format("run.prometheus_host = \"{}\" must be an IPv4 address: 127.0.0.1 for "
                             "this machine alone, 0.0.0.0 for everybody",
                             host)};
  }
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (fd < 0 || ::bind(fd, raw, size) != 0 || ::listen(fd, 16) != 0 ||
      ::getsockname(fd, raw, &size) != 0) {
    const std::string why = std::strerror(errno);
    if (fd >= 0) ::close(fd);
    return Error{ErrorKind::Usage,
                 fmt::format("run.prometheus_port = {}: cannot listen at {}: {}; choose another "
                             "port, or 0 for none",
                             port, host, why)};
  }
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return std::unique_ptr<MetricsServer>(
      new MetricsServer(fd, wake, ntohs(address.sin_port), std::move(text)));
}

MetricsServer::MetricsServer(int listening, int wake, int port, std::function<std::string()> text)
    : listening_(listening), wake_(wake), port_(port), text_(std::move(text)) {
  thread_ = std::thread([this] { serve(); });
}

MetricsServer::~MetricsServer() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
  thread_.join();
  ::close(listening_);
  ::close(wake_);
}

bool MetricsServer::wait(int fd, short events, int64_t deadline_ns) const {
  while (true) {
    const int64_t left_ms = (deadline_ns - monotonic_ns()) / 1'000'000;
    if (deadline_ns > 0 && left_ms <= 0) return false;
    pollfd waited[2] = {{fd, events, 0}, {wake_, POLLIN, 0}};
    const int ready = ::poll(waited, 2, deadline_ns > 0 ? int(left_ms) : -1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0 || waited[1].revents != 0) return false;
    if (waited[0].revents != 0) return true;
  }
}

void MetricsServer::serve() {
  while (wait(listening_, POLLIN, 0)) {
    const int client = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) {  // out of descriptors, or the client has left
      wait(-1, 0, monotonic_ns() + 100'000'000);
      continue;
    }
    answer(client);
    ::close(client);
  }
}

void MetricsServer::answer(int client) {
  const int64_t deadline_ns = monotonic_ns() + kClientNs;
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos) {
    char part[1024];
    if (request.size() > kMostRequestBytes || !wait(client, POLLIN, deadline_ns)) return;
    const ssize_t got = ::read(client, part, sizeof part);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
    if (got > 0) request.append(part, size_t(got));
  }
  const std::string line = request.substr(0, request.find("\r\n"));
  std::string reply;
  if (line.rfind("GET ", 0) != 0) {
    reply = response("405 Method Not Allowed", "only GET\n", "text/plain");
  } else if (line.rfind("GET /metrics ", 0) == 0 || line.rfind("GET /metrics?", 0) == 0) {
    reply = response("200 OK", text_(), "text/plain; version=0.0.4; charset=utf-8");
  } else {
    reply = response("404 Not Found", "look at /metrics\n", "text/plain");
  }
  std::string_view rest = reply;
  while (!rest.empty() && wait(client, POLLOUT, deadline_ns)) {
    const ssize_t sent = ::send(client, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return;
    if (sent > 0) rest.remove_prefix(size_t(sent));
  }
}

}  // namespace trireme
