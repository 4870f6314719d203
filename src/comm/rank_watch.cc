#include "comm/rank_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace trireme {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(50);
constexpr double kStopGraceS = 10.0;  // launchers usually wait longer before they kill
constexpr double kEndGraceS = 5.0;    // time after an abort for every rank to return

double seconds(const WaitedTime& waited) { return double(waited.ns()) * 1e-9; }

void look_at(std::optional<WaitedTime>& waited, int64_t now_ns) {
  if (!waited) waited.emplace(now_ns);
  waited->look(now_ns);
}

}  // namespace

RankWatch::RankWatch(Fabric& fabric, int first_rank, int num_ranks, const WorldOptions& options)
    : fabric_(fabric), options_(options) {
  if (!options_.on_hang) return;
  for (int rank = first_rank; rank < first_rank + num_ranks; ++rank) {
    ranks_.push_back({.rank = rank, .since_progress = WaitedTime(steady_now_ns())});
  }
  thread_ = std::thread([this] { live(); });
}

RankWatch::~RankWatch() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void RankWatch::live() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLookEvery, [&] { return is_over_; })) look(steady_now_ns());
}

void RankWatch::look(int64_t now_ns) {
  for (Watched& watched : ranks_) look_at_call(watched, now_ns);
  if (fabric_.aborted()) {
    look_at(since_abort_, now_ns);
    if (seconds(*since_abort_) >= kEndGraceS) hang(fabric_.first_error());
  } else if (have_all_returned()) {
    look_at(since_return_, now_ns);
    if (seconds(*since_return_) < options_.timeout_s) return;
    hang({ErrorKind::Runtime,
          fmt::format("rank {} has returned, but its communication has not ended within "
                      "run.comm_timeout_s = {:.3g}: a process of another rank is stopped or gone",
                      ranks_.front().rank, seconds(*since_return_))});
  }
}

void RankWatch::look_at_call(Watched& watched, int64_t now_ns) {
  const Progress& progress = fabric_.cell(watched.rank).progress;
  watched.since_progress.look(now_ns);
  const bool is_asked = options_.stop_signals != nullptr && options_.stop_signals->load() > 0;
  if (is_asked) look_at(watched.since_stop, now_ns);
  const uint64_t count = progress.count();
  const std::optional<ProgressCall> call = progress.current();
  const bool advances = count != watched.progress;
  if (advances && since_abort_) since_abort_->restart();
  if (advances || !call) {
    watched.progress = count;
    watched.since_progress.restart();
    watched.since_stop.reset();
    return;
  }
  const double stalled_s = seconds(watched.since_progress);
  const std::string text = stall_text(watched.rank, stalled_s, call);
  if (stalled_s >= options_.progress_timeout_s) {
    fabric_.abort(watched.rank, text + "; raise checkpoint.timeout_s or look at the disk");
  } else if (is_asked && seconds(*watched.since_stop) >= kStopGraceS) {
    fabric_.abort(watched.rank, "stopped by a signal without saving: " + text +
                                    "; earlier checkpoints are intact");
  }
}

bool RankWatch::have_all_returned() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [&](const Watched& watched) { return fabric_.has_left(watched.rank); });
}

void RankWatch::hang(const Error& error) {
  if (is_reported_) return;
  is_reported_ = true;
  options_.on_hang(error);
}

}  // namespace trireme
