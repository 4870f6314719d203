#include "agent/mpirun_link.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "agent/process_stat.h"
#include "comm/tcp/socket.h"

namespace trireme {
namespace {

constexpr double kJoinS = 10.0;
constexpr int kWatchMs = 200;
constexpr int kMostWaiting = 1024;

// A name that begins with a zero byte is in no folder, so nothing of it is ever left behind.
socklen_t address_of(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + length);
}

// Returns the process at the other end, or -1 if it is that of another user.
pid_t peer_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool is_known = ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  return is_known && peer.uid == ::getuid() ? peer.pid : -1;
}

Error link_error(const std::string& what) {
  return {ErrorKind::Runtime,
          fmt::format("the agent that has started mpirun: {}: {}", what, std::strerror(errno))};
}

}  // namespace

Result<MpirunDoor> MpirunDoor::open() {
  const auto own = stat_of_process(::getpid());
  const std::string name =
      fmt::format("trireme-{}-{}-{}", ::getuid(), ::getpid(), own ? own->start : 0);
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address;
  const socklen_t size = address_of(name, address);
  const bool is_open = listener >= 0 &&
                       ::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                       ::listen(listener, kMostWaiting) == 0;
  if (is_open) return MpirunDoor(name, listener);
  const Error error = link_error("its local socket cannot be opened");
  if (listener >= 0) ::close(listener);
  return error;
}

MpirunDoor::MpirunDoor(MpirunDoor&& other) noexcept
    : name_(std::move(other.name_)),
      listener_(std::exchange(other.listener_, -1)),
      silent_(std::exchange(other.silent_, {})) {}

MpirunDoor::~MpirunDoor() {
  for (const MpirunVisitor& visitor : silent_) ::close(visitor.socket);
  if (listener_ >= 0) ::close(listener_);
}

std::vector<MpirunVisitor> MpirunDoor::take_visitors() {
  int socket = -1;
  while ((socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0) {
    silent_.push_back({.socket = socket, .pid = peer_of(socket)});
  }
  std::vector<MpirunVisitor> known;
  for (auto it = silent_.begin(); it != silent_.end();) {
    const ssize_t got = ::recv(it->socket, &it->rank, sizeof it->rank, MSG_DONTWAIT);
    const bool is_silent = got < 0 && (errno == EAGAIN || errno == EINTR) && it->pid > 0;
    if (is_silent) {
      ++it;
      continue;
    }
    if (got == ssize_t(sizeof it->rank) && it->pid > 0) {
      known.push_back(*it);
    } else {
      ::close(it->socket);
    }
    it = silent_.erase(it);
  }
  return known;
}

bool give_page(const MpirunVisitor& visitor, int page) {
  char one = 1;
  iovec body{&one, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof page)] = {};
  msghdr message{};
  message.msg_iov = &body;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof page);
  std::memcpy(CMSG_DATA(head), &page, sizeof page);
  return ::sendmsg(visitor.socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

namespace {

// Returns the descriptor that the agent sends, or -1.
int receive_page(int socket) {
  pollfd entry{socket, POLLIN, 0};
  const Deadline deadline = Deadline::after(kJoinS);
  while (::poll(&entry, 1, deadline.left_ms()) < 0 && errno == EINTR) {
  }
  char one = 0;
  iovec body{&one, 1};
  int page = -1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof page)] = {};
  msghdr message{};
  message.msg_iov = &body;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  const bool has_page = head != nullptr && head->cmsg_type == SCM_RIGHTS;
  if (has_page) std::memcpy(&page, CMSG_DATA(head), sizeof page);
  return page;
}

}  // namespace

Result<LinkDescriptors> join_mpirun_agent(const std::string& name, const MpirunRank& own) {
  LinkDescriptors link{.socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  sockaddr_un address;
  const socklen_t size = address_of(name, address);
  if (link.socket < 0 || ::connect(link.socket, reinterpret_cast<sockaddr*>(&address), size) != 0) {
    return link_error("it cannot be reached");
  }
  if (peer_of(link.socket) < 0) {
    return Error{ErrorKind::Runtime, "the agent that has started mpirun is that of another user"};
  }
  if (::send(link.socket, &own, sizeof own, MSG_NOSIGNAL) != ssize_t(sizeof own)) {
    return link_error("it has left");
  }
  link.page = receive_page(link.socket);
  if (link.page < 0) {
    return Error{ErrorKind::Runtime,
                 fmt::format("the agent that has started mpirun does not want rank {} of epoch {}",
                             own.rank, own.epoch)};
  }
  link.terminal = ::dup(STDERR_FILENO);
  return link;
}

AgentWatch::AgentWatch(int socket) {
  agent_ = int(::syscall(SYS_pidfd_open, peer_of(socket), 0));
  if (agent_ < 0) return;
  thread_ = std::thread([this] {
    pollfd entry{agent_, POLLIN, 0};
    while (!is_over_) {
      if (::poll(&entry, 1, kWatchMs) > 0) ::kill(::getpid(), SIGKILL);
    }
  });
}

AgentWatch::~AgentWatch() {
  is_over_ = true;
  if (thread_.joinable()) thread_.join();
  if (agent_ >= 0) ::close(agent_);
}

}  // namespace trireme
