#include "comm/tcp/visits.h"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "base/failure.h"

namespace trireme {
namespace {

constexpr int kVisitPollMs = 50;

void back_off() { std::this_thread::sleep_for(std::chrono::milliseconds(kVisitPollMs)); }

bool has_bytes(const Socket& socket) {
  pollfd entry{socket.fd(), POLLIN, 0};
  return ::poll(&entry, 1, kVisitPollMs) > 0;
}

bool has_left(const Socket& socket) {
  char byte = 0;
  return ::recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace

Visits::Visits(Reception reception, const VisitLimits& limits, TcpLog log, Open open)
    : limits_(limits),
      log_(std::move(log)),
      open_(std::move(open)),
      reception_(std::move(reception)),
      thread_([this] { receive(); }) {}

Visits::~Visits() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  thread_.join();
  for (const Visit& visit : visits_) ::shutdown(visit.socket.fd(), SHUT_RDWR);
  for (Visit& visit : visits_) visit.thread.join();
}

bool Visits::is_stopping() {
  const std::lock_guard lock(mutex_);
  return is_stopping_;
}

void Visits::say(const std::string& sentence) {
  if (log_ && !is_stopping()) log_(sentence);
}

void Visits::receive() {
  while (!is_stopping()) {
    try {
      let_in();
    } catch (const std::exception& exception) {  // such as memory or threads that have run out
      say(std::string("a connection was refused: ") + exception.what());
      back_off();
    }
  }
}

void Visits::let_in() {
  const auto judge = [](const Hello&) { return Verdict::Welcome; };
  auto visitors = reception_.receive({.purpose = Purpose::Agent}, judge, kVisitPollMs);
  if (!visitors.ok()) {
    say(visitors.error().message);
    back_off();
    return;
  }
  remove_ended();
  for (Reception::Visitor& visitor : *visitors) {
    if (visits_.size() >= limits_.most) break;
    prepare_for_messages(visitor.socket, limits_.silence_s);
    Visit& visit = visits_.emplace_back();
    visit.socket = std::move(visitor.socket);
    try {
      visit.thread = std::thread([this, &visit] { serve(visit); });
    } catch (...) {
      visits_.pop_back();
      throw;
    }
  }
}

void Visits::remove_ended() {
  for (auto visit = visits_.begin(); visit != visits_.end();) {
    std::unique_lock lock(mutex_);
    const bool has_ended = visit->has_ended;
    lock.unlock();
    if (has_ended) visit->thread.join();
    visit = has_ended ? visits_.erase(visit) : std::next(visit);
  }
}

void Visits::serve(Visit& visit) {
  const std::string visitor = peer_address(visit.socket);
  Status status = Done{};
  try {
    status = serve_all(visit.socket);
  } catch (const std::exception& exception) {
    status = error_of(exception);
  }
  if (!status.ok()) say("lost the connection from " + visitor + ": " + status.error().message);
  ::shutdown(visit.socket.fd(), SHUT_RDWR);
  const std::lock_guard lock(mutex_);
  visit.has_ended = true;
}

Status Visits::serve_all(const Socket& socket) {
  const Serve serve_one = open_();
  while (!is_stopping()) {
    if (!has_bytes(socket)) continue;
    if (has_left(socket)) break;
    TRIREME_TRY_DONE(serve_one(socket));
  }
  return Done{};
}

}  // namespace trireme
