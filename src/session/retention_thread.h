#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/held_folder.h"
#include "checkpoint/retention.h"
#include "train/observer.h"

namespace trireme {

// Reads back what was saved and removes what is too old (checkpoint/retention.h) on a thread of low
// priority, while the steps go on. Tells damage at the next step.
class RetentionThread : public RunObserver {
 public:
  RetentionThread(const RetentionOptions& options, std::vector<RunObserver*> listeners);
  ~RetentionThread() override;  // gives up what is not finished

  void on_checkpoint(const CheckpointReport& report) override;
  void on_step(const StepReport&) override;
  // Waits until the last checkpoint was read back.
  void finish();

 private:
  struct Job {
    HeldFolder root;
    int64_t step = 0;
  };
  void run();
  void note(const HeldFolder& root, const RetentionResult& result);
  void tell();

  const RetentionOptions options_;
  const std::vector<RunObserver*> listeners_;
  std::atomic<bool> should_stop_ = false, has_messages_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> next_;  // a newer save takes the place of one that was not begun
  bool is_busy_ = false;
  std::vector<std::string> messages_;
  std::set<std::string> told_;  // a damaged checkpoint is told once; of the thread alone
  std::thread thread_;
};

}  // namespace trireme
