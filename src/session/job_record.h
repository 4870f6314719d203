#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "agent/rank_link.h"
#include "agent/run_right.h"
#include "observe/metrics.h"
#include "observe/summary.h"
#include "session/resume.h"
#include "train/observer.h"
#include "train/trainer.h"

namespace trireme {

struct SessionOptions;

// Keeps the JobPage of an epoch, and writes to metrics.jsonl which failure the job has survived.
// Only rank 0 has one. It stands before the other observers of a run, so that its lines
// come before the first step of the epoch, and no step is recorded that the rank has ended without
// a right to run.
class JobRecord : public RunObserver {
 public:
  JobRecord(const SessionOptions& options, MetricsFile& metrics, std::string run_fields);
  // The state of `position` is loaded, from a checkpoint or from nothing.
  void begin(const TrainPosition& position, const ResumePoint& resumed, int64_t joined_ns,
             int64_t state_ns);
  void on_step(const StepReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  void on_memory_checkpoint(const MemoryReport& report) override;

 private:
  void write_restart();

  JobPage& page_;
  uint64_t epoch_;
  RunRight right_;
  const std::optional<EpochOrder>& order_;
  MetricsFile& metrics_;
  std::string fields_;
  ResumePoint resumed_;
  int64_t position_ = 0;
  int64_t joined_ns_ = 0;
  int64_t state_ns_ = 0;
  bool has_stepped_ = false;
};

// The part of the summary that failures decide. `num_failures` is that of the job.
SurvivedFailures survived_failures(const JobPage& page, int num_failures);

}  // namespace trireme
