#include "store/remote_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "base/clock.h"

namespace trireme {
namespace {

// Deadline of the first call to a server. It doubles after each call that has used it up, because
// the server may be slow and not lost.
constexpr double kFirstTryS = 1.0;
constexpr double kLongestTryS = 16.0;
constexpr size_t kMostPeers = 64;
constexpr std::chrono::milliseconds kPause(20);
// So long after a server could not be reached, the others pass calls on to the leader.
constexpr int64_t kPassesOnNs = 10'000'000'000;

}  // namespace

RemoteLog::RemoteLog(const std::vector<std::string>& addresses, const std::string& secret,
                     uint64_t store)
    : secret_(secret), store_(store) {
  for (const std::string& address : addresses) {
    peers_.push_back(std::make_shared<StorePeer>(address, secret));
  }
}

Result<AppliedAnswer> RemoteLog::apply(const std::string& command, Deadline deadline) {
  return ask({.op = StoreOp::Apply, .text = command}, deadline);
}

Result<AppliedAnswer> RemoteLog::query(const std::string& question, Deadline deadline) {
  return ask({.op = StoreOp::Query, .text = question}, deadline);
}

Result<LogMembers> RemoteLog::members(Deadline deadline) {
  TRIREME_TRY(answer, ask({.op = StoreOp::Members}, deadline));
  return decode_members(answer.bytes);
}

Status RemoteLog::change_members(const LogMembers& members, uint64_t epoch, Deadline deadline) {
  TRIREME_TRY(answer,
              ask({.op = StoreOp::ChangeMembers, .epoch = epoch, .text = encode_members(members)},
                  deadline));
  static_cast<void>(answer);
  return Done{};
}

Result<AppliedAnswer> RemoteLog::ask(StoreRequest request, Deadline deadline) {
  if (peers_.empty()) return damaged("the store names no server that keeps its metadata");
  request.store = store_;
  std::map<std::string, std::string> why;  // by address
  double try_s = kFirstTryS;
  bool is_cut_off = false;
  while (deadline.left_ms() > 0) {
    size_t at = 0;
    std::shared_ptr<StorePeer> peer;
    {
      const std::lock_guard lock(mutex_);
      at = leader_;
      peer = peers_[at];
      request.passes_on = is_cut_off || monotonic_ns() < passes_on_until_ns_;
    }
    const double seconds = std::min(try_s, double(deadline.left_ms()) * 1e-3);
    const Deadline patience = Deadline::after(seconds);
    const Result<StoreReply> reply = peer->ask(request, seconds);
    if (patience.left_ms() == 0) try_s = std::min(2 * try_s, kLongestTryS);
    if (reply.ok() && reply->is_leader) {
      const std::lock_guard lock(mutex_);
      if (is_cut_off) passes_on_until_ns_ = monotonic_ns() + kPassesOnNs;
      return AppliedAnswer{.bytes = reply->text};
    }
    is_cut_off |= !reply.ok();
    // A usage error stays, however often the call is repeated.
    if (!reply.ok() && reply.error().kind == ErrorKind::Usage) return reply.error();
    why[peer->address()] = reply.ok() ? "does not lead" : reply.error().message;
    if (next_after(at, reply.ok() ? reply->leader : "") <= at) std::this_thread::sleep_for(kPause);
  }
  std::string reasons;
  for (const auto& [address, reason] : why) {
    reasons += fmt::format(
        "; {}", reason.find(address) == std::string::npos ? address + ": " + reason : reason);
  }
  const std::lock_guard lock(mutex_);
  return Error{ErrorKind::Runtime,
               fmt::format("the metadata did not answer before the deadline; of {} servers that "
                           "keep them, more than half must run{}",
                           peers_.size(), reasons)};
}

size_t RemoteLog::next_after(size_t at, const std::string& leader) {
  const std::lock_guard lock(mutex_);
  size_t next = (at + 1) % peers_.size();
  const auto named = std::ranges::find(peers_, leader, &StorePeer::address);
  if (named != peers_.end()) {
    next = size_t(named - peers_.begin());
  } else if (!leader.empty() && peers_.size() < kMostPeers) {
    // It has taken the place of a server that was lost.
    next = peers_.size();
    peers_.push_back(std::make_shared<StorePeer>(leader, secret_));
  }
  if (leader_ == at) leader_ = next;
  return next;
}

}  // namespace trireme
