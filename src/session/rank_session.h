#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/run_right.h"
#include "calibrate/measure_offload.h"
#include "comm/calibrate_comm.h"
#include "comm/world.h"
#include "device/cpu_load.h"
#include "observe/failure_timeline.h"
#include "observe/metrics.h"
#include "predict/op_times.h"
#include "predict/predict.h"
#include "session/first_steps.h"
#include "session/rank_hardware.h"
#include "session/resume.h"
#include "session/retention_thread.h"
#include "session/run_folder.h"
#include "session/session.h"
#include "session/session_data.h"
#include "session/slow_note.h"
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

// Keeps the last evaluation and the last epoch count for the summary.
class SummaryObserver : public RunObserver {
 public:
  void on_eval(const EvalReport& report) override { eval_ = report; }
  void on_step(const StepReport& report) override { epoch_ = report.epoch; }
  const EvalReport& eval() const { return eval_; }
  const std::optional<double>& epoch() const { return epoch_; }

 private:
  EvalReport eval_;
  std::optional<double> epoch_;
};

struct RunRecords;
struct RunSummary;

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
        preparing_(note_if_slow(preparing_text())),
        engine_(plan_, world, *choice_.kernels, *data_.train, options_.out_dir),
        steps_(make_steps(engine_)) {
    preparing_.reset();
    show_program();
  }

  Result<SessionResult> run();
  // Waits until the last checkpoint has been read back. Other ranks do not wait for it.
  void finish_retention() {
    if (retention_) retention_->finish();
  }

 private:
  // Measured times: of the steps of every rank, of the ops of rank 0, and of the whole run.
  struct Measured {
    const std::vector<RankMeasurement>& ranks;
    const OpComparison& ops;
    const GoodputReport& goodput;
  };

  // The agent has asked the ranks to save and wait for another epoch.
  bool is_epoch_wanted() const;
  bool is_first() const { return world_.rank() == 0; }
  Progress& progress() { return world_.group().progress(); }
  void tell(const std::string& message) const;  // tells the user; only on rank 0
  void tell_crowding() const;
  void tell_notes() const;
  void show_program() const;  // to the agent
  // Tells the text if the returned object lives too long; null if this is not rank 0.
  std::unique_ptr<SlowNote> note_if_slow(const std::string& text) const;
  std::string preparing_text() const;
  void tell_scattered() const;  // if the ranks do not lie on hosts as predictions take them to
  Result<TrainPosition> start();
  Result<TrainPosition> load();
  // In rank_session_back.cc: which checkpoints may not be resumed.
  Result<int64_t> agree_on_latest_step(const MemoryResume& memory);
  void show_resumed(int64_t step, const MemoryResume& memory) const;
  void set_later_aside(int64_t latest_step, int64_t resumed_step);
  void add_left_out(TrainPosition& position) const;
  std::string why_nothing_is_left(const TrainPosition& position) const;
  Result<SessionResult> leave_as_it_is(const TrainPosition& position);
  // Returns the best validation of a checkpoint on disk, found by the first rank. All ranks call
  // it.
  Validation find_kept_best();
  void measure_machine();
  void take_mean_of_ranks();
  // Takes the measurements of an earlier epoch of the job. Returns false if there are none for this
  // number of ranks.
  bool take_measured();
  void keep_measured() const;
  void predict();
  Status write_plan_files();
  void restore_files(RunRecords& records);
  Status open_records(const TrainPosition& position, RunRecords& records);
  Status begin_records(const TrainPosition& position, RunRecords& records);
  TrainerParts trainer_parts(StepTrace& trace, const RunRecords& records);
  void watch_first_steps(TrainerParts& parts, std::optional<FirstSteps>& first_steps);
  void write_reports(const StepTrace& trace, const Trainer& trainer, const OpComparison& ops,
                     double seconds, RunRecords& records, const SessionResult& result);
  // Returns the request for a checkpoint in this folder of checkpoints.
  SaveRequest save_request(const TrainPosition& position, Result<std::string> root);
  SaveRequest disk_request(const TrainPosition& position);
  MemoryTier memory_tier() const;
  // Reports a file that could not be written. That does not end the run, because its weights are
  // saved.
  void warn(const Status& report) const;
  std::vector<FailureTimeline> survived() const;
  // Writes summary.json from what metrics.jsonl has, if the former first rank was lost before it
  // has written it.
  Status write_late_summary(const SessionResult& result);
  void take_load(const std::optional<CpuTimes>& before, SessionResult& result) const;
  Status write_learned_hardware(const SessionResult& result, const Measured& measured);
  Status write_summary(const std::string& folder, const Trainer& trainer,
                       const SessionResult& result, const Measured& measured, double seconds);
  void add_recorded(RunSummary& summary) const;
  Result<TrainEnd> train(Trainer& trainer, const TrainPosition& position, MetricsFile* metrics);
  Result<TrainEnd> train_with_rollbacks(Trainer& trainer, TrainPosition position,
                                        RunRecords& records);
  Result<TrainPosition> roll_back(Trainer& trainer, RunRecords& records);
  double peak_flops() const;
  // Measures the ceilings of compute again. The best ones ever seen count.
  double measure_peak();
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
  std::unique_ptr<SlowNote> preparing_;  // while the engine is made, which touches its memory
  Engine engine_;
  std::unique_ptr<StepMaker> steps_;
  MeasuredMachine measured_;
  Hardware hardware_;  // of one rank; set on rank 0
  Predictions predictions_;
  SummaryObserver summary_observer_;
  std::vector<AttachedFile> attached_;          // to every checkpoint; only on rank 0
  std::unique_ptr<RetentionThread> retention_;  // only on rank 0
};

}  // namespace trireme
