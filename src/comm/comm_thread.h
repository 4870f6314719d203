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

 private:
  void live();
  bool drive_active();  // true if an operation has ended
  void take_submissions();
  [[noreturn]] void give_up_on(int peer, Operation& operation);
  void end(Operation& operation);
  void nap(int idle_polls);

  Backend& backend_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Operation>> pool_;  // all operations, in use or not
  std::vector<Operation*> free_;
  std::vector<Operation*> submitted_;
  std::atomic<int> num_submitted_{0};
  std::vector<Operation*> active_;  // used only by the thread; in order of submission
  uint64_t pass_ = 0;
  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

}  // namespace trireme
