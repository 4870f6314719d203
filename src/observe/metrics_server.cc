#include "observe/metrics_server.h"

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
#include <utility>

#include "base/clock.h"
#include "observe/metrics_answer.h"

namespace trireme {
namespace {

// Limit from the connection to the last byte of the answer.
constexpr int64_t kClientNs = 2'000'000'000;
constexpr int64_t kNoDescriptorNs = 50'000'000;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::listen(const std::string& host, int port,
                                                             std::function<std::string()> text) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(port));
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return Error{ErrorKind::Usage,
                 fmt::format("run.prometheus_host = \"{}\" must be an IPv4 address: 127.0.0.1 for "
                             "this machine only, 0.0.0.0 for every network",
                             host)};
  }
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (fd < 0 || ::bind(fd, raw, size) != 0 || ::listen(fd, SOMAXCONN) != 0 ||
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

void MetricsServer::serve() {
  std::vector<pollfd> waited;
  while (true) {
    const int64_t now_ns = monotonic_ns();
    const bool accepts = now_ns >= accept_from_ns_;
    int64_t until_ns = accepts ? INT64_MAX : accept_from_ns_;
    waited.assign({{wake_, POLLIN, 0}, {accepts ? listening_ : -1, POLLIN, 0}});
    for (const Connection& connection : connections_) {
      const short events = connection.reply.empty() ? POLLIN : POLLOUT;
      waited.push_back({connection.fd, events, 0});
      until_ns = std::min(until_ns, connection.deadline_ns);
    }
    const int64_t left_ms = (until_ns - now_ns) / 1'000'000 + 1;
    ::poll(waited.data(), waited.size(),
           until_ns == INT64_MAX ? -1 : int(std::max<int64_t>(left_ms, 0)));
    if (waited[0].revents != 0) break;
    for (size_t i = 0; i < connections_.size(); ++i) {
      if (waited[i + 2].revents != 0 && !advance(connections_[i])) connections_[i].deadline_ns = 0;
    }
    close_ended(monotonic_ns());
    if (waited[1].revents != 0) accept_all();
  }
  close_ended(INT64_MAX);
}

void MetricsServer::accept_all() {
  // Accepts at most as many connections as there are places, so that a flood of clients cannot
  // block the others.
  for (size_t round = 0; round < kMostConnections; ++round) {
    const int client = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (client < 0) {
      if (!would_block()) accept_from_ns_ = monotonic_ns() + kNoDescriptorNs;
      return;
    }
    if (connections_.size() == kMostConnections) {
      ::close(connections_.front().fd);
      connections_.erase(connections_.begin());
    }
    Connection connection{.fd = client, .deadline_ns = monotonic_ns() + kClientNs};
    if (advance(connection)) {
      connections_.push_back(std::move(connection));
    } else {
      ::close(client);
    }
  }
}

bool MetricsServer::advance(Connection& connection) const {
  std::string& request = connection.request;
  while (connection.reply.empty()) {
    char part[1024];
    const ssize_t got = ::read(connection.fd, part, sizeof part);
    if (got <= 0) return got < 0 && would_block();
    request.append(part, size_t(got));
    if (auto reply = answer_request(request, text_)) {
      connection.reply = std::move(*reply);
    } else if (request.size() > kMostRequestBytes) {
      return false;
    }
  }
  const std::string& reply = connection.reply;
  const ssize_t sent = ::send(connection.fd, reply.data(), reply.size(), MSG_NOSIGNAL);
  if (sent < 0) return would_block();
  connection.reply.erase(0, size_t(sent));
  return !connection.reply.empty();
}

void MetricsServer::close_ended(int64_t now_ns) {
  std::erase_if(connections_, [now_ns](const Connection& connection) {
    if (connection.deadline_ns > now_ns) return false;
    ::close(connection.fd);
    return true;
  });
}

}  // namespace trireme
