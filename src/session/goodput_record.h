#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/job_page.h"
#include "compile/run_plan.h"
#include "train/checkpoint_saver.h"
#include "train/observer.h"
#include "train/save_schedule.h"

namespace trireme {

// What a GoodputRecord needs to know of a run.
struct GoodputFacts {
  JobPage* page = nullptr;  // of the job; null: the run is no job of `trireme launch`
  int64_t hosts = 1;
  double copy_s = 0.0;  // expected time for which training waits for a save, until one is measured
  const RunConfig* config = nullptr;
};

// Counts where the time of a run goes, over all epochs of its job, and chooses the intervals of
// checkpoints that are "auto". Only rank 0 has one. It stands before the other observers, which it
// tells the counts every few seconds.
class GoodputRecord : public RunObserver {
 public:
  explicit GoodputRecord(const GoodputFacts& facts);
  // Training is ready. `tell` gets a sentence whenever an interval changes by more than a fifth.
  void begin(std::vector<RunObserver*> others, std::function<void(const std::string&)> tell);
  void on_step(const StepReport& report) override;

  SaveIntervals intervals(const SaveCounts& counts);
  // `saving_s`: of all saves of this epoch, also those after the last step.
  GoodputReport report(double saving_s);

 private:
  double predicted() const;
  int64_t best_steps(double save_s, int64_t failures) const;
  int64_t chosen(int64_t configured, int64_t best, int64_t former, const char* key, double save_s);

  GoodputFacts facts_;
  std::unique_ptr<JobPage> own_page_;  // of a run that is no job
  JobPage& page_;
  std::vector<RunObserver*> others_;
  std::function<void(const std::string&)> tell_;
  int64_t step_ = 0;
  int64_t told_ns_ = 0;
  double saving_s_ = 0.0;  // of this epoch, as far as it was counted
  double steps_s_ = 0.0;   // of this epoch
  int64_t num_steps_ = 0;
  SaveIntervals intervals_;
  double disk_save_s_ = 0.0, memory_save_s_ = 0.0;
  bool has_measured_ = false;  // both, in this epoch
};

}  // namespace trireme
