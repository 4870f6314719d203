#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "cli/command_io.h"
#include "cli/run_config_options.h"
#include "store/run_copy.h"
#include "train/observer.h"

namespace trireme {

// Copies a run into a store (checkpoint.store) while it trains: after each checkpoint, and at its
// end. A thread of its own does so. If a checkpoint comes while the one before is being copied,
// both are there after the next update. What fails is told once and tried again after the next
// checkpoint; training goes on. At the end the run waits for the copy until a deadline. If a disk
// of the store does not return by then, the thread is left behind.
class StoredRun : public RunObserver {
 public:
  using OpenForWriting = std::function<Result<std::unique_ptr<Store>>()>;

  // `tell` gets messages, on the thread that calls on_step and the destructor. `deadline_s`: for
  // the last update, which begins when the run ends; see usual_deadline_s().
  StoredRun(RunCopy copy, OpenForWriting open, std::function<void(const std::string&)> tell,
            std::function<double()> deadline_s);
  // Makes the update that the last checkpoint asked for, so that a run that has failed has it, too.
  ~StoredRun() override;
  StoredRun(const StoredRun&) = delete;
  StoredRun& operator=(const StoredRun&) = delete;

  void on_checkpoint(const CheckpointReport&) override;
  void on_step(const StepReport&) override;
  // Makes the copy that of the run as it is now. Returns an error if that fails, or does not end
  // before the deadline.
  Status finish();

 private:
  struct Copying;  // what the thread works on

  // Waits for the end of the thread. Returns false if it was left behind.
  bool stop();
  void tell_failure();

  const std::shared_ptr<Copying> copying_;  // shared with the thread
  std::function<void(const std::string&)> tell_;
  std::function<double()> deadline_s_;
  std::thread worker_;
};

// Ten minutes, and the time that all files below the folder take at 10 MB/s; a day at most.
double usual_deadline_s(const std::string& folder);

// Gives a run its copy in a store, if `out` is store://NAME/PATH: the run works in the folder
// runs/NAME/PATH of this host (`out`), and checkpoint.store names the copy.
Status take_stored_out(RunConfigOptions& config, std::string& out);

// Before the first rank of a run with checkpoint.store begins. With `resume` = "auto", what the
// store has and the run directory lacks is fetched if it is newer. Otherwise the name must be free.
Status prepare_stored_run(const std::string& url, const std::string& folder,
                          const std::string& resume, CommandIo& io);

// The copy of such a run; null if `url` is "".
Result<std::unique_ptr<StoredRun>> stored_run(const std::string& url, const std::string& folder,
                                              CommandIo& io);

}  // namespace trireme
