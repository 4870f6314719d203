#include "comm/waiter.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace trireme {
namespace {

constexpr int64_t kFirstNapNs = 2'000'000;
constexpr int64_t kNapNs = 10'000'000;

bool is_direct(Collective collective) {
  return collective == Collective::Send || collective == Collective::Recv;
}

// True if the awaited peer has not made this call yet.
bool arrives_later(const Fabric& fabric, const WaitRecord& wait) {
  const SignatureRecord& call = wait.what;
  return wait.since_ns != 0 && wait.peer >= 0 && !is_direct(call.collective) &&
         call.group < kWatchedGroups &&
         fabric.cell(wait.peer).issued[call.group].load(std::memory_order_acquire) < call.sequence;
}

// Follows the waits from `rank` to the rank that waits for nobody: all others wait for it. Returns
// `rank` itself if the waits form a cycle.
int last_of_waits(const Fabric& fabric, int rank) {
  int last = rank;
  for (int hop = 0; hop < fabric.size(); ++hop) {
    const std::optional<WaitRecord> wait = fabric.cell(last).waits[0].load();
    if (!wait || wait->since_ns == 0 || wait->peer < 0) return last;
    last = wait->peer;
  }
  return rank;
}

}  // namespace

std::string mismatch_text(int rank, const SignatureRecord& mine, int peer,
                          const SignatureRecord& theirs) {
  const bool mine_first = rank < peer;
  return fmt::format("collective mismatch: rank {} is in {}; rank {} is in {}",
                     mine_first ? rank : peer, to_string(mine_first ? mine : theirs),
                     mine_first ? peer : rank, to_string(mine_first ? theirs : mine));
}

std::string left_text(int rank, int peer, const SignatureRecord& mine) {
  return fmt::format("rank {} has left while rank {} waits for it in {}", peer, rank,
                     to_string(mine));
}

Waiter::Watch::Watch(Waiter& waiter, const WaitSubject& subject)
    : waiter_(waiter),
      subject_(subject),
      mine_(record_of(subject.signature)),
      waited_(steady_now_ns()) {}

Waiter::Watch::~Watch() {
  if (published_peer_ == -2) return;
  waiter_.fabric_.cell(waiter_.rank_).looked_ns[0].store(0, std::memory_order_relaxed);
  waiter_.fabric_.cell(waiter_.rank_).waits[0].store(WaitRecord{});
  waiter_.page_.end_wait();
}

void Waiter::Watch::publish(int peer) {
  if (peer == published_peer_) return;
  published_peer_ = peer;
  waiter_.fabric_.cell(waiter_.rank_)
      .waits[0]
      .store({.since_ns = waited_.since_ns(), .peer = peer, .what = mine_});
  waiter_.page_.begin_wait(peer, mine_.group, mine_.sequence, waited_.since_ns());
}

void Waiter::Watch::give_up(const std::string& cause) {
  waiter_.fabric_.abort(waiter_.rank_, cause);
  waiter_.fabric_.throw_aborted(waiter_.rank_, to_string(mine_));
}

void Waiter::Watch::look_around(int peer) {
  Fabric& fabric = waiter_.fabric_;
  if (fabric.aborted()) fabric.throw_aborted(waiter_.rank_, to_string(mine_));
  publish(peer);
  const int64_t now_ns = steady_now_ns();
  waited_.look(now_ns);
  fabric.cell(waiter_.rank_).looked_ns[0].store(now_ns, std::memory_order_relaxed);
  look_for_mismatch();
  look_for_cycle();
  if (peer >= 0 && subject_.polls_messages && fabric.has_left(peer)) {
    if (departed_peer_ == peer) {
      give_up(left_text(waiter_.rank_, peer, mine_));
    }
    departed_peer_ = peer;
  }
  look_for_progress();
  if (waited_.ns() < waiter_.policy_.timeout_ns) return;
  // The failure is that of the rank for which all others wait, so that only this one is replaced.
  fabric.abort(last_of_waits(fabric, waiter_.rank_), deadline_text(now_ns));
  fabric.throw_aborted(waiter_.rank_, to_string(mine_));
}

void Waiter::Watch::look_for_progress() {
  uint64_t progress = 0;
  for (int member : subject_.members) progress += waiter_.fabric_.cell(member).progress.count();
  if (progress != progress_seen_) waited_.restart();
  progress_seen_ = progress;
}

// Names the rank that works alone and its call, if a rank shows one.
std::string Waiter::Watch::deadline_text(int64_t now_ns) const {
  const double seconds = double(waited_.ns()) * 1e-9;
  const std::string table =
      fmt::format("who waits for whom:{}", waiter_.fabric_.wait_table(now_ns));
  for (int member : subject_.members) {
    if (const auto call = waiter_.fabric_.cell(member).progress.current()) {
      return fmt::format("{}; raise checkpoint.timeout_s or look at the disk; {}",
                         stall_text(member, seconds, call), table);
    }
  }
  return fmt::format("rank {} waited {:.3f} s, its deadline; {}", waiter_.rank_, seconds, table);
}

int64_t Waiter::Watch::nap_ns() const {
  if (departed_peer_ >= 0) return 100'000;
  const int64_t usual = waited_.ns() < kFirstNapNs ? kFirstNapNs : kNapNs;
  const int64_t left = waiter_.policy_.timeout_ns - waited_.ns();
  return std::clamp<int64_t>(left, 1000, usual);
}

void Waiter::Watch::look_for_mismatch() {
  if (is_direct(mine_.collective)) return;
  for (int peer : subject_.members) {
    if (peer == waiter_.rank_) continue;
    for (const SharedRecord<WaitRecord>& lane : waiter_.fabric_.cell(peer).waits) {
      const std::optional<WaitRecord> wait = lane.load();
      if (!wait || wait->since_ns == 0) continue;
      const SignatureRecord& theirs = wait->what;
      if (is_direct(theirs.collective)) continue;
      if (theirs.group != mine_.group || theirs.sequence != mine_.sequence) continue;
      if (theirs.hash != mine_.hash) give_up(mismatch_text(waiter_.rank_, mine_, peer, theirs));
    }
  }
}

// Finds a deadlock: rank a waits for rank b, which has not made a's call because b itself waits for
// c, and so on back to a. A cycle is reported if two searches find the same waits.
void Waiter::Watch::look_for_cycle() {
  const Fabric& fabric = waiter_.fabric_;
  uint64_t cycle = 0;
  int rank = waiter_.rank_;
  for (int hop = 0; hop < fabric.size(); ++hop) {
    const std::optional<WaitRecord> wait = fabric.cell(rank).waits[0].load();
    if (!wait || !arrives_later(fabric, *wait)) break;
    cycle = cycle * 31 + uint64_t(wait->since_ns);
    rank = wait->peer;
    if (rank != waiter_.rank_) continue;
    if (cycle == cycle_seen_) {
      give_up("ranks wait for each other in different calls:" + cycle_text());
    }
    cycle_seen_ = cycle;
    return;
  }
  cycle_seen_ = 0;
}

// A rank leaves a cycle only after an abort, and then the cause of that abort is reported.
std::string Waiter::Watch::cycle_text() const {
  const Fabric& fabric = waiter_.fabric_;
  std::string text;
  int rank = waiter_.rank_;
  for (int hop = 0; hop < fabric.size(); ++hop) {
    const std::optional<WaitRecord> wait = fabric.cell(rank).waits[0].load();
    if (!wait) break;
    text +=
        fmt::format("\n  rank {} waits for rank {} in {}", rank, wait->peer, to_string(wait->what));
    rank = wait->peer;
    if (rank < 0 || rank == waiter_.rank_) break;
  }
  return text;
}

}  // namespace trireme
