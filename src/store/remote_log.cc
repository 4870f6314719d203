#include "store/remote_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace trireme {
namespace {

// Deadline of the first call to a server. It doubles after each call that has used it up, because
// the server may be slow and not lost.
constexpr double kFirstTryS = 1.0;
constexpr double kLongestTryS = 16.0;
constexpr std::chrono::milliseconds kPause(20);

}  // namespace

RemoteLog::RemoteLog(const std::vector<std::string>& addresses, const std::string& secret,
                     uint64_t store)
    : store_(store) {
  for (const std::string& address : addresses) {
    peers_.push_back(std::make_shared<StorePeer>(address, secret));
  }
}

Result<AppliedAnswer> RemoteLog::apply(const std::string& command, Deadline deadline) {
  return ask(StoreOp::Apply, command, deadline);
}

Result<AppliedAnswer> RemoteLog::query(const std::string& question, Deadline deadline) {
  return ask(StoreOp::Query, question, deadline);
}

Result<AppliedAnswer> RemoteLog::ask(StoreOp op, const std::string& text, Deadline deadline) {
  if (peers_.empty()) return damaged("the store names no server that keeps its metadata");
  const StoreRequest request{.op = op, .store = store_, .text = text};
  std::string why = "no server knows the leader";
  double try_s = kFirstTryS;
  while (deadline.left_ms() > 0) {
    size_t at = 0;
    {
      const std::lock_guard lock(mutex_);
      at = leader_;
    }
    const double seconds = std::min(try_s, double(deadline.left_ms()) * 1e-3);
    const Deadline patience = Deadline::after(seconds);
    const Result<StoreReply> reply = peers_[at]->ask(request, seconds);
    if (patience.left_ms() == 0) try_s = std::min(2 * try_s, kLongestTryS);
    if (reply.ok() && reply->is_leader) return AppliedAnswer{.bytes = reply->text};
    // A usage error stays, however often the call is repeated.
    if (!reply.ok() && reply.error().kind == ErrorKind::Usage) return reply.error();
    if (!reply.ok()) why = reply.error().message;
    size_t next = (at + 1) % peers_.size();
    if (reply.ok()) {
      const auto named = std::ranges::find(peers_, reply->leader, &StorePeer::address);
      if (named != peers_.end()) next = size_t(named - peers_.begin());
    }
    {
      const std::lock_guard lock(mutex_);
      if (leader_ == at) leader_ = next;
    }
    if (next <= at) std::this_thread::sleep_for(kPause);
  }
  return Error{ErrorKind::Runtime,
               fmt::format("the metadata did not answer before the deadline; of {} servers that "
                           "keep them, more than half must run; the last reason: {}",
                           peers_.size(), why)};
}

}  // namespace trireme
