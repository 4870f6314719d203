#include "agent/peer_probe.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "comm/tcp/handshake.h"

namespace trireme {
namespace {

constexpr int kAttempts = 2;

// The other agent takes this for somebody who asks for the status and says nothing.
bool is_reached(const std::string& address, const std::string& secret, double timeout_s) {
  const Deadline deadline = Deadline::after(timeout_s);
  const Result<Socket> socket = connect_to(address, deadline);
  return socket.ok() && greet(*socket, secret, {.purpose = Purpose::Status}, deadline).ok();
}

}  // namespace

PeerProbe::PeerProbe(std::string secret, double timeout_s)
    : secret_(std::move(secret)), timeout_s_(timeout_s), thread_([this] { work(); }) {}

PeerProbe::~PeerProbe() {
  {
    const std::lock_guard lock(mutex_);
    must_end_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void PeerProbe::set_peers(std::map<std::string, std::string> addresses) {
  const std::lock_guard lock(mutex_);
  peers_ = std::move(addresses);
}

std::set<std::string> PeerProbe::unreached() const {
  const std::lock_guard lock(mutex_);
  std::set<std::string> names;
  for (const auto& [name, attempts] : failed_) {
    if (attempts >= kAttempts && peers_.contains(name)) names.insert(name);
  }
  return names;
}

void PeerProbe::work() {
  const auto pause = std::chrono::duration<double>(timeout_s_);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [this] { return must_end_; })) {
    const std::map<std::string, std::string> peers = peers_;
    lock.unlock();
    std::map<std::string, std::future<bool>> attempts;
    for (const auto& [name, address] : peers) {
      attempts[name] = std::async(std::launch::async, is_reached, address, secret_, timeout_s_);
    }
    std::map<std::string, bool> reached;
    for (auto& [name, attempt] : attempts) reached[name] = attempt.get();
    lock.lock();
    for (const auto& [name, is_there] : reached) failed_[name] = is_there ? 0 : failed_[name] + 1;
  }
}

std::set<std::string> hosts_to_leave_out(
    const std::vector<std::string>& hosts,
    const std::map<std::string, std::set<std::string>>& unreached) {
  std::set<std::string> left_out;
  const auto are_apart = [&](const std::string& a, const std::string& b) {
    const auto of_a = unreached.find(a);
    const auto of_b = unreached.find(b);
    return (of_a != unreached.end() && of_a->second.contains(b)) ||
           (of_b != unreached.end() && of_b->second.contains(a));
  };
  const auto num_missing = [&](const std::string& host) {
    return std::count_if(hosts.begin(), hosts.end(), [&](const std::string& other) {
      return other != host && !left_out.contains(other) && are_apart(host, other);
    });
  };
  while (true) {
    const std::string* worst = nullptr;
    for (const std::string& host : hosts) {
      if (left_out.contains(host) || num_missing(host) == 0 || &host == &hosts.front()) continue;
      if (worst == nullptr || num_missing(host) >= num_missing(*worst)) worst = &host;
    }
    if (worst == nullptr) return left_out;
    left_out.insert(*worst);
  }
}

}  // namespace trireme
