#include "agent/agent_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace trireme {
namespace {

// The socket breaks by itself if the other host does not answer for so long.
constexpr double kChannelSilenceS = 10.0;
// A peer that takes nothing is broken once so much waits for it.
constexpr size_t kMostUnsent = size_t{8} << 20;

}  // namespace

AgentChannel::AgentChannel(Socket socket) : socket_(std::move(socket)) {
  prepare_for_messages(socket_, kChannelSilenceS);
}

void AgentChannel::fail(const std::string& why) {
  if (why_broken_.empty()) why_broken_ = why;
}

void AgentChannel::send(AgentMessage message, std::span<const std::byte> body) {
  if (is_broken()) return;
  message.clock_ns = steady_now_ns();
  message.body_bytes = uint32_t(body.size());
  const auto head = std::as_bytes(std::span(&message, 1));
  unsent_.insert(unsent_.end(), head.begin(), head.end());
  unsent_.insert(unsent_.end(), body.begin(), body.end());
  flush();
  if (unsent_.size() > kMostUnsent) fail("the other side takes no messages");
}

void AgentChannel::flush() {
  size_t done = 0;
  while (!is_broken() && done < unsent_.size()) {
    const ssize_t sent = ::send(socket_.fd(), unsent_.data() + done, unsent_.size() - done,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      done += size_t(sent);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      fail(std::strerror(errno));
    }
  }
  unsent_.erase(unsent_.begin(), unsent_.begin() + ptrdiff_t(done));
}

void AgentChannel::receive() {
  std::array<std::byte, 16 << 10> bytes;
  while (received_.size() <= kMostAgentBody) {
    const ssize_t got = ::recv(socket_.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      received_.insert(received_.end(), bytes.begin(), bytes.begin() + got);
    } else if (got == 0) {
      return fail("the other side has closed the connection");
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      return fail(std::strerror(errno));
    }
  }
}

std::optional<AgentChannel::Received> AgentChannel::next() {
  const size_t head_bytes = sizeof(AgentMessage);
  if (!is_broken()) receive();
  if (received_.size() < head_bytes) return std::nullopt;
  const auto head = check_agent_message(std::span(received_).first(head_bytes));
  if (!head.ok()) {
    received_.clear();
    fail(head.error().message);
    return std::nullopt;
  }
  const size_t bytes = head_bytes + head->body_bytes;
  if (received_.size() < bytes) return std::nullopt;
  const auto begin = received_.begin() + ptrdiff_t(head_bytes);
  Received message{*head, {begin, received_.begin() + ptrdiff_t(bytes)}};
  received_.erase(received_.begin(), received_.begin() + ptrdiff_t(bytes));
  return message;
}

void AgentChannel::add_descriptors(std::vector<pollfd>& entries) const {
  if (is_broken()) return;
  entries.push_back({socket_.fd(), short(unsent_.empty() ? POLLIN : POLLIN | POLLOUT), 0});
}

void AgentChannel::finish(Deadline deadline) {
  flush();
  while (!is_broken() && !unsent_.empty() && deadline.left_ms() > 0) {
    pollfd entry{socket_.fd(), POLLOUT, 0};
    ::poll(&entry, 1, deadline.left_ms());
    flush();
  }
}

}  // namespace trireme
