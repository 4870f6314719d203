#pragma once

#include <cstdint>
#include <span>

#include "comm/fabric.h"
#include "comm/waited_time.h"
#include "watch/progress_page.h"

namespace trireme {

struct WaitPolicy {
  int spins = 4000;  // polls before it sleeps, about 40 us; few if ranks share cores
  // Counted from the last Progress that any rank of the group has shown.
  int64_t timeout_ns = 60'000'000'000;
};

// The subject of a wait, for its report.
struct WaitSubject {
  const Signature& signature;
  std::span<const int> members;  // world ranks of the group
  // True if ready() itself reads the peer's messages. If false, the communication thread does, ends
  // the wait by ring_own, and decides whether a peer that has left can still be received from.
  bool polls_messages = true;
};

// How the calling thread of a rank waits. It spins briefly, then sleeps until a peer wakes it, or
// its own communication thread if that one drives the call. It does not yield: the scheduler of
// Linux lets a thread that yields wait for a whole turn of every other thread that wants the core,
// but a thread that sleeps runs soon after it is woken. Every few milliseconds it checks for an
// abort, a peer that has left, a peer in another call, and its deadline. Every failure throws
// CommError and aborts all ranks.
class Waiter {
 public:
  // A wait that is not over at once is shown in `page`.
  Waiter(Fabric& fabric, int rank, ProgressPage& page, WaitPolicy policy)
      : fabric_(fabric), rank_(rank), page_(page), policy_(policy) {}

  // ready() polls and may do work. peer() is the world rank that is waited for now, or -1.
  template <typename Ready, typename Peer>
  void until(const WaitSubject& subject, Ready&& ready, Peer&& peer) {
    for (int spin = 0; spin < policy_.spins; ++spin) {
      if (ready()) return;
      if (spin % 64 == 63 && fabric_.aborted()) break;
      __builtin_ia32_pause();
    }
    Watch watch(*this, subject);
    RankCell& cell = fabric_.cell(rank_);
    Doorbell& bell = subject.polls_messages ? cell.bell : cell.own_bell;
    while (true) {
      watch.look_around(peer());
      const uint32_t seen = Fabric::announce_sleep(bell);
      bool done = false;
      try {
        done = ready();
      } catch (...) {
        Fabric::cancel_sleep(bell);
        throw;
      }
      if (done) {
        Fabric::cancel_sleep(bell);
        return;
      }
      Fabric::sleep(bell, seen, watch.nap_ns());
    }
  }

 private:
  // One slow wait. Its record is visible to all ranks while it lasts.
  class Watch {
   public:
    Watch(Waiter& waiter, const WaitSubject& subject);
    ~Watch();
    void look_around(int peer);  // aborts all ranks and throws if the wait cannot succeed
    int64_t nap_ns() const;

   private:
    void publish(int peer);
    void look_for_mismatch();
    void look_for_cycle();
    void look_for_progress();
    std::string deadline_text(int64_t now_ns) const;
    std::string cycle_text() const;
    [[noreturn]] void give_up(const std::string& cause);

    Waiter& waiter_;
    const WaitSubject& subject_;
    SignatureRecord mine_;
    WaitedTime waited_;
    int published_peer_ = -2;
    // A peer seen to have left; accepted after its messages were polled once more.
    int departed_peer_ = -1;
    uint64_t cycle_seen_ = 0;     // hash of the cycle found last; reported if it stays
    uint64_t progress_seen_ = 0;  // of all ranks of the group together
  };

  Fabric& fabric_;
  int rank_;
  ProgressPage& page_;
  WaitPolicy policy_;
};

// Returns "collective mismatch: rank 0 is in ..., rank 1 is in ...".
std::string mismatch_text(int rank, const SignatureRecord& mine, int peer,
                          const SignatureRecord& theirs);
std::string left_text(int rank, int peer, const SignatureRecord& mine);

}  // namespace trireme
