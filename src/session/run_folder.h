#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/held_folder.h"
#include "base/result.h"
#include "train/observer.h"

namespace trireme {

// The folder of a run while it goes on, and the one that takes its place when it is gone. Nothing
// makes the run's folder anew: what would be written there is not what was lost.
class RunFolder : public RunObserver {
 public:
  // Both folders exist; "" for `fallback`: there is none.
  static Result<RunFolder> hold(const std::string& path, const std::string& fallback);

  bool is_lost() const { return !held_.is_at_its_path(); }
  // Where a checkpoint goes now; Damaged where there is no such place.
  Result<std::string> checkpoint_root() const;
  // Where reports go now; "": nowhere.
  std::string report_folder() const;

  // Looks at the folder after every step, and tells its loss at once.
  void tell_loss_to(std::vector<RunObserver*> listeners) { listeners_ = std::move(listeners); }
  void on_step(const StepReport& report) override;
  // True once the folder was lost and nothing takes its place.
  const std::atomic<bool>& must_stop() const { return *must_stop_; }

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
