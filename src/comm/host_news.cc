#include "comm/host_news.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace trireme {
namespace {

constexpr int64_t kAnnounceProgressNs = 200'000'000;
constexpr int64_t kAnnounceWaitNs = 20'000'000;  // only longer waits are announced to other hosts

}  // namespace

int64_t NewsMessage::bytes() const {
  const size_t text = kind == Kind::Abort ? std::strlen(cause) + 1 : 0;
  return int64_t(offsetof(NewsMessage, cause) + text);
}

void HostNews::spread_abort(int rank, const Error& error) {
  const std::lock_guard lock(mutex_);
  abort_rank_ = rank;
  abort_error_ = error;
  abort_pending_.store(true, std::memory_order_release);
}

bool HostNews::next(NewsMessage& message) {
  return next_abort(message) || next_wait(message) || next_progress(message);
}

bool HostNews::next_abort(NewsMessage& message) {
  if (!has_abort()) return false;
  const std::lock_guard lock(mutex_);
  abort_pending_.store(false, std::memory_order_relaxed);
  message.kind = NewsMessage::Kind::Abort;
  message.rank = abort_rank_;
  message.error_kind = abort_error_.kind;
  const std::string& cause = abort_error_.message;
  const size_t length = std::min(cause.size(), sizeof message.cause - 1);
  std::memcpy(message.cause, cause.data(), length);
  message.cause[length] = '\0';
  return true;
}

// Announces what this rank waits for, once it has waited long, and again when that changes.
bool HostNews::next_wait(NewsMessage& message) {
  const int64_t now = steady_now_ns();
  if (now - last_announced_ns_ < kAnnounceWaitNs) return false;
  const std::optional<WaitRecord> record = fabric_.cell(rank_).waits[0].load();
  if (!record) return false;
  WaitRecord wait = *record;
  if (wait.since_ns != 0 && now - wait.since_ns < kAnnounceWaitNs) return false;
  if (wait.since_ns == announced_wait_.since_ns && wait.peer == announced_wait_.peer) return false;
  last_announced_ns_ = now;
  announced_wait_ = wait;
  message.kind = NewsMessage::Kind::Waits;
  message.rank = rank_;
  if (wait.since_ns != 0) wait.since_ns = now - wait.since_ns;
  message.wait = wait;
  return true;
}

// Announces the progress of this rank's own work, at most a few times per second.
bool HostNews::next_progress(NewsMessage& message) {
  const int64_t now = steady_now_ns();
  const Progress& progress = fabric_.cell(rank_).progress;
  const uint64_t count = progress.count();
  if (count == announced_progress_ || now - progress_announced_ns_ < kAnnounceProgressNs) {
    return false;
  }
  announced_progress_ = count;
  progress_announced_ns_ = now;
  message.kind = NewsMessage::Kind::Progress;
  message.rank = rank_;
  message.progress = count;
  message.progress_call = progress.current().value_or(ProgressCall{});
  return true;
}

void HostNews::apply(const NewsMessage& message) {
  switch (message.kind) {
    case NewsMessage::Kind::Abort:
      fabric_.abort(message.rank, message.cause, message.error_kind);
      break;
    case NewsMessage::Kind::Left:
      fabric_.leave(message.rank);
      break;
    case NewsMessage::Kind::Progress:
      fabric_.cell(message.rank).progress.mirror(message.progress, message.progress_call);
      break;
    case NewsMessage::Kind::Waits: {
      WaitRecord wait = message.wait;
      if (wait.since_ns != 0) wait.since_ns = steady_now_ns() - wait.since_ns;
      fabric_.cell(message.rank).waits[0].store(wait);
      break;
    }
  }
}

}  // namespace trireme
