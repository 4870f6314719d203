#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/backend.h"
#include "comm/operation.h"

namespace trireme {

// The communication thread of one rank drives the active operations, so that transfers make
// progress while the rank computes. Operations of one group run in the order of their calls. The
// thread starts with the first operation, or at once if the backend needs it.
//
// Where this thread has no core of its own, waking it for every transfer would cost more than the
// transfer. There the calling threads drive: a call begins the operation, and a waiting thread
// drives all active operations. The communication thread looks only every millisecond. It helps
// ranks that wait for one that computes for a long time.
class CommThread {
 public:
  explicit CommThread(Backend& backend);
  // Joins the thread. Active operations end with the abort or are finished first.
  ~CommThread();

  // Takes an operation from a pool, so that a steady step allocates none.
  Operation* acquire();
  void release(Operation* operation);
  void submit(Operation* operation);
  void ensure_started();

  // True if a calling thread that waits drives the operations.
  bool callers_drive() const { return callers_drive_; }
  // For a calling thread that waits: drives all active operations as far as possible now.
  void drive_in_caller();

 private:
  // The active operations after all were driven once.
  struct Look {
    size_t num_active = 0;
    bool has_changed = false;  // one has begun or ended
    bool moves_messages = false;
  };

  void live();
  Look drive();             // The caller holds seat_.
  Look drive_with_seat();   // Locks seat_ first.
  bool drive_active();      // true if an operation has ended
  bool take_submissions();  // true if there are some
  [[noreturn]] void give_up_on(int peer, Operation& operation);
  void end(Operation& operation);
  void nap(int idle_polls, const Look& look);
  void nap_beside_callers(int idle_polls);

  Backend& backend_;
  const bool callers_drive_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Operation>> pool_;  // all operations, in use or not
  std::vector<Operation*> free_;
  std::vector<Operation*> submitted_;
  std::atomic<int> num_submitted_{0};
  std::mutex seat_;                 // held by the thread that drives; guards active_ and pass_
  std::vector<Operation*> active_;  // in order of submission
  uint64_t pass_ = 0;
  std::atomic<size_t> num_active_{0};
  // The communication thread sleeps longer than a millisecond and must be woken.
  std::atomic<bool> dozes_{false};
  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

}  // namespace trireme
