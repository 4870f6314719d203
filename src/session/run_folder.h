#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "base/held_folder.h"
#include "base/result.h"
#include "train/observer.h"

namespace trireme {

inline constexpr const char* kRunLockName = ".lock";

// Watches the folder of a running session. If the folder disappears, training continues:
// checkpoints go to the fallback folder, or, without one, the folder is made again as soon as that
// is possible. Until then nothing can be saved.
class RunFolder : public RunObserver {
 public:
  // Both folders must exist; "" for `fallback` means that there is none.
  static Result<RunFolder> hold(const std::string& path, const std::string& fallback);

  // True if neither the folder nor one that was made in its place is at the path.
  bool is_lost() const;
  // Folder for the next checkpoint; a Damaged error if there is none.
  Result<std::string> checkpoint_root() const;
  // Folder for reports; "" if there is none.
  std::string report_folder() const;

  // Makes the folder again if it is lost and there is no fallback. Only the first rank may do so.
  Status make_again();

  // Sets who is told when the folder is lost, made again or back, and what is called in the last
  // two cases, when files of the run may be missing there. Both are checked after every step.
  void tell_loss_to(std::vector<RunObserver*> listeners) { listeners_ = std::move(listeners); }
  void call_when_found(std::function<void()> function) { when_found_ = std::move(function); }
  void on_step(const StepReport& report) override;

 private:
  enum class Place { Own, Lost, MadeAgain };

  RunFolder(HeldFolder held, std::string fallback)
      : held_(std::move(held)), fallback_(std::move(fallback)) {}
  Place place() const;
  std::string text_of_change(Place now, const Status& made) const;

  HeldFolder held_;
  std::optional<HeldFolder> made_;  // in place of held_
  std::optional<FileLock> lock_;    // in made_
  std::string fallback_;
  Place told_ = Place::Own;
  int64_t num_made_ = 0, num_told_ = 0;
  std::vector<RunObserver*> listeners_;
  std::function<void()> when_found_;
};

}  // namespace trireme
