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

// Reads saved checkpoints back and removes old ones (checkpoint/retention.h) on a thread of low
// priority while training continues. Damage is reported at the next step.
class RetentionThread : public RunObserver {
 public:
  RetentionThread(const RetentionOptions& options, std::vector<RunObserver*> listeners);
  ~RetentionThread() override;  // abandons unfinished work

  // Waits until the job before has begun. So the folder holds at most two checkpoints more than are
  // kept, however fast a run saves and however seldom this thread gets a core.
  void on_checkpoint(const CheckpointReport& report) override;
  void on_failed_save() override { finish(); }
  void on_step(const StepReport&) override;
  // Waits until the last checkpoint has been read back.
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
  std::optional<Job> next_;
  bool is_busy_ = false;
  std::vector<std::string> messages_;
  std::set<std::string> reported_;  // damaged checkpoints already reported; used only by the thread
  std::thread thread_;
};

}  // namespace trireme
