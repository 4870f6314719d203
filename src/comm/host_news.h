#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/progress.h"
#include "base/result.h"
#include "comm/fabric.h"

namespace trireme {

// One piece of news that a rank sends to the ranks of other hosts.
struct NewsMessage {
  enum class Kind : int32_t { Abort, Waits, Left, Progress };
  Kind kind = Kind::Left;
  int32_t rank = 0;
  ErrorKind error_kind = ErrorKind::Runtime;  // Abort
  int32_t reserved = 0;
  WaitRecord wait;             // Waits; since_ns is an age, because the clocks of hosts differ
  uint64_t progress = 0;       // Progress
  ProgressCall progress_call;  // Progress
  char cause[sizeof FabricHeader::cause] = {};  // Abort; ends with 0

  // Number of bytes that are sent: the cause is cut behind its end.
  int64_t bytes() const;
};

// Decides which news a rank sends to the ranks of other hosts, and applies those that it receives:
// aborts with the first cause, what a rank waits for, the progress of its own work, and that it has
// left. A transport carries the messages. Used on the communication thread.
class HostNews {
 public:
  HostNews(int rank, Fabric& fabric) : rank_(rank), fabric_(fabric) {}

  // May be called from any thread. The abort is the next message.
  void spread_abort(int rank, const Error& error);
  bool has_abort() const { return abort_pending_.load(std::memory_order_acquire); }

  // Fills the next message and returns true if there are news.
  bool next(NewsMessage& message);
  NewsMessage left_message() const { return {.kind = NewsMessage::Kind::Left, .rank = rank_}; }
  void apply(const NewsMessage& message);

 private:
  bool next_abort(NewsMessage& message);
  bool next_wait(NewsMessage& message);
  bool next_progress(NewsMessage& message);

  int rank_;
  Fabric& fabric_;
  WaitRecord announced_wait_;
  int64_t last_announced_ns_ = 0;
  uint64_t announced_progress_ = 0;
  int64_t progress_announced_ns_ = 0;
  std::mutex mutex_;
  std::atomic<bool> abort_pending_{false};
  int abort_rank_ = 0;
  Error abort_error_;
};

}  // namespace trireme
