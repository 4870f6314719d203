#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/held_folder.h"
#include "base/result.h"
#include "train/observer.h"

namespace trireme {

// Watches the folder of a running session, and switches to the fallback folder if it disappears. A
// lost folder is never recreated, because a new folder would not contain the earlier checkpoints.
class RunFolder : public RunObserver {
 public:
  // Both folders must exist; "" for `fallback` means that there is none.
  static Result<RunFolder> hold(const std::string& path, const std::string& fallback);

  bool is_lost() const { return !held_.is_at_its_path(); }
  // Folder for the next checkpoint; a Damaged error if there is none.
  Result<std::string> checkpoint_root() const;
  // Folder for reports; "" if there is none.
  std::string report_folder() const;

  // Sets who is told when the folder is lost. It is checked after every step.
  void tell_loss_to(std::vector<RunObserver*> listeners) { listeners_ = std::move(listeners); }
  void on_step(const StepReport& report) override;
  // True if the folder is lost and there is no fallback.
  bool must_stop() const { return must_stop_->load(std::memory_order_relaxed); }

 private:
  RunFolder(HeldFolder held, std::string fallback)
      : held_(std::move(held)), fallback_(std::move(fallback)) {}

  HeldFolder held_;
  std::string fallback_;
  bool was_lost_ = false;
  std::unique_ptr<std::atomic<bool>> must_stop_ = std::make_unique<std::atomic<bool>>(false);
  std::vector<RunObserver*> listeners_;
};

}  // namespace trireme
