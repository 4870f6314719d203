#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/run_right.h"
#include "comm/calibrate_comm.h"
#include "comm/world.h"
#include "device/cpu_load.h"
#include "kernels/ceilings.h"
#include "observe/failure_timeline.h"
#include "observe/metrics.h"
#include "predict/op_times.h"
#include "predict/predict.h"
#include "session/resume.h"
#include "session/retention_thread.h"
#include "session/run_folder.h"
#include "session/session.h"
#include "session/session_data.h"
#include "session/step_maker.h"
#include "train/engine.h"
#include "train/kernel_choice.h"

namespace trireme {

// The inputs of a session that all ranks share.
struct SessionParts {
  const SessionOptions& options;
  const RunPlan& plan;
  const KernelChoice& choice;
  RunFolder& folder;
  const CpuLoad& load;
  int64_t joined_ns = 0;  // when the ranks have met
};

// Makes the StepMaker of a rank's session.
using MakeSteps = std::function<std::unique_ptr<StepMaker>(Engine& engine)>;

// Keeps the last evaluation for the summary.
class SummaryObserver : public RunObserver {
 public:
  void on_eval(const EvalReport& report) override { eval_ = report; }
  const EvalReport& eval() const { return eval_; }

 private:
  EvalReport eval_;
};

struct Records;

// The session of one rank. Rank 0 prints the messages and writes the files of the run.
class RankSession {
 public:
  RankSession(const SessionParts& parts, World& world, SessionData data,
              const MakeSteps& make_steps)
      : options_(parts.options),
        plan_(parts.plan),
        choice_(parts.choice),
        folder_(parts.folder),
        load_(parts.load),
        joined_ns_(parts.joined_ns),
        right_(options_.link, options_.place ? options_.place->epoch : 1, options_.out_dir),
        world_(world),
        data_(std::move(data)),
        engine_(plan_, world, *choice_.kernels, *data_.train, options_.out_dir),
        steps_(make_steps(engine_)) {}

  Result<SessionResult> run();
  // Waits until the last checkpoint has been read back. Other ranks do not wait for it.
  void finish_retention() {
    if (retention_) retention_->finish();
  }

 private:
  // What the steps have taken, of every rank, and of the ops of rank 0.
  struct Measured {
    const std::vector<RankMeasurement>& ranks;
    const OpComparison& ops;
  };

  // The agent has asked the ranks to save and wait for another epoch.
  bool is_epoch_wanted() const;
  bool must_stop() const;
  bool is_first() const { return world_.rank() == 0; }
  Progress& progress() { return world_.group().progress(); }
  void tell(const std::string& message) const;  // tells the user; only on rank 0
  void tell_crowding() const;
  void tell_notes() const;
  void tell_scattered() const;  // if the ranks do not lie on hosts as predictions take them to
  Result<TrainPosition> start();
  Result<SessionResult> leave_as_it_is(const TrainPosition& position);
  void measure_machine();
  // A later epoch takes what the job has measured. Returns false if it has measured nothing for as
  // many ranks.
  bool take_measured();
  void keep_measured() const;
  Status write_plan_files();
  Status open_records(const TrainPosition& position, Records& records);
  SaveRequest save_request(const TrainPosition& position);
  MemoryTier memory_tier() const;
  // Reports a file that could not be written. That does not end the run, because its weights are
  // saved.
  void warn(const Status& report) const;
  std::vector<FailureTimeline> survived() const;
  void take_load(const std::optional<CpuTimes>& before, SessionResult& result) const;
  Status write_learned_hardware(const SessionResult& result, const Measured& measured);
  Status write_summary(const std::string& folder, const Trainer& trainer,
                       const SessionResult& result, const Measured& measured, double seconds);
  Result<TrainEnd> train(Trainer& trainer, const TrainPosition& position, MetricsFile* metrics);
  double peak_flops() const;
  const std::string& offload_folder() const {
    const std::string& folder = plan_.config.memory.offload_folder;
    return folder.empty() ? options_.out_dir : folder;
  }

  const SessionOptions& options_;
  const RunPlan& plan_;
  const KernelChoice& choice_;
  ResumePoint resumed_;
  RunFolder& folder_;
  const CpuLoad& load_;
  int64_t joined_ns_;
  const RunRight right_;
  World& world_;
  SessionData data_;
  Engine engine_;
  std::unique_ptr<StepMaker> steps_;
  Ceilings ceilings_;
  MeasuredCalls calls_;               // measured links between the ranks
  double offload_bytes_per_s_ = 0.0;  // measured; of all ranks together
  Hardware hardware_;                 // of one rank; set on rank 0
  Predictions predictions_;
  SummaryObserver summary_observer_;
  std::vector<AttachedFile> attached_;          // to every checkpoint; only on rank 0
  std::unique_ptr<RetentionThread> retention_;  // only on rank 0
};

}  // namespace trireme
