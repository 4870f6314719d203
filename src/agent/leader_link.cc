#include "agent/leader_link.h"

#include <chrono>
#include <utility>

#include "comm/fabric.h"
#include "comm/tcp/handshake.h"

namespace trireme {
namespace {

constexpr double kConnectS = 1.0;
constexpr int64_t kTryAgainNs = 100'000'000;
constexpr size_t kMostAttempts = 8;  // at the same time

Result<Socket> connect_as_agent(const std::string& address, const std::string& secret) {
  const Deadline deadline = Deadline::after(kConnectS);
  TRIREME_TRY(socket, connect_to(address, deadline));
  const Hello hello{.purpose = Purpose::Agent};
  TRIREME_TRY_DONE(greet(socket, secret, hello, deadline));
  return std::move(socket);
}

bool is_over(const std::future<Result<Socket>>& socket) {
  return socket.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

LeaderLink::~LeaderLink() = default;

void LeaderLink::drop() {
  channel_.reset();
  leader_.clear();
  address_.clear();
}

void LeaderLink::turn_to(const std::string& leader, const std::string& address) {
  const bool is_same = leader == leader_ && address == address_;
  if (channel_ && (!is_same || channel_->is_broken())) channel_.reset();
  leader_ = leader;
  address_ = address;
  const int64_t now = steady_now_ns();
  const bool is_early = is_same && now - tried_ns_ < kTryAgainNs;
  if (channel_ || address.empty() || is_early || attempts_.size() >= kMostAttempts) return;
  for (const Attempt& attempt : attempts_) {
    if (attempt.address == address) return;
  }
  tried_ns_ = now;
  attempts_.push_back({address, std::async(std::launch::async, [address, secret = secret_] {
                         return connect_as_agent(address, secret);
                       })});
}

bool LeaderLink::advance() {
  bool is_connected = false;
  for (Attempt& attempt : attempts_) {
    if (!is_over(attempt.socket)) continue;
    Result<Socket> socket = attempt.socket.get();
    if (!socket.ok()) last_problem_ = socket.error().message;
    if (socket.ok() && !channel_ && attempt.address == address_) {
      channel_ = std::make_unique<AgentChannel>(std::move(*socket));
      is_connected = true;
    }
  }
  std::erase_if(attempts_, [](const Attempt& attempt) { return !attempt.socket.valid(); });
  return is_connected;
}

void LeaderLink::add_descriptors(std::vector<pollfd>& entries) const {
  if (channel_) channel_->add_descriptors(entries);
}

}  // namespace trireme
