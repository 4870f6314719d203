#include <fmt/format.h>

#include "session/rank_session.h"
#include "session/resume.h"
#include "session/run_records.h"
#include "train/left_out_samples.h"
#include "train/run_state.h"

namespace trireme {
namespace {

constexpr int kMostRollbacks = 5;  // of one start of the run

}  // namespace

// Writes the first cause of a failure to the metrics before the rank ends.
Result<TrainEnd> RankSession::train(Trainer& trainer, const TrainPosition& position,
                                    MetricsFile* metrics) {
  const auto note = [&](const std::string& cause) {
    // An agent that has started this rank knows more about the failure and writes it down.
    if (metrics != nullptr && options_.link == nullptr)
      metrics->write_failure(trainer.position().step, cause, trainer.corruption());
  };
  try {
    const Result<TrainEnd> end = trainer.run(position);
    if (!end.ok()) note(end.error().message);
    return end;
  } catch (const std::exception& error) {
    note(error.what());
    world_.abort(error);  // with this cause, before a save in memory gives up
    throw;
  }
}

// After a spike of the loss, all ranks go back to the newest checkpoint on disk before it, and the
// samples since then are left out, as published runs did by hand.
Result<TrainEnd> RankSession::train_with_rollbacks(Trainer& trainer, TrainPosition position,
                                                   RunRecords& records) {
  for (int rollbacks = 0;; ++rollbacks) {
    TRIREME_TRY(end, train(trainer, position, records.metrics ? &*records.metrics : nullptr));
    if (end != TrainEnd::Spiked) return end;
    const TrainPosition& spiked = trainer.position();
    if (rollbacks == kMostRollbacks) {
      return Error{
          ErrorKind::Runtime,
          fmt::format("step {}: the loss is {} after {} rollbacks: the run diverges; lower "
                      "optim.lr, set optim.clip_norm, or look at the samples that "
                      "metrics.jsonl names in its rollback lines",
                      spiked.step, trainer.last_loss(), rollbacks)};
    }
    TRIREME_TRY(back, roll_back(trainer, records));
    position = back;
  }
}

Result<TrainPosition> RankSession::roll_back(Trainer& trainer, RunRecords& records) {
  const TrainPosition& spiked = trainer.position();
  SessionOptions options = options_;
  options.resume = ResumeMode::Auto;
  options.before_step = spiked.step;
  options.memory_folder.clear();  // a checkpoint in memory may be of the spike itself
  MemoryResume no_memory(world_, options, engine_);
  const Result<ResumePoint> found = agree_on_resume(world_, options, no_memory);
  if (!found.ok() || found->folder.empty()) {
    tell(
        fmt::format("step {}: the loss of {} is a spike, but there is no checkpoint before it to "
                    "go back to: set checkpoint.every; the run continues",
                    spiked.step, trainer.last_loss()));
    return spiked;
  }
  TRIREME_TRY(checkpoint, Checkpoint::open(found->folder));
  // A rank that is lost soon must not resume on the way to the spike.
  trainer.remove_memory_checkpoints();
  TRIREME_TRY(position, restore(checkpoint, plan_, engine_));
  const RollbackReport report{.step = spiked.step,
                              .loss = trainer.last_loss(),
                              .z_score = trainer.last_z_score(),
                              .resumed_step = position.step,
                              .first_sample = int64_t(position.next_sample),
                              .num_samples = int64_t(spiked.next_sample - position.next_sample)};
  position.left_out = spiked.left_out;
  leave_out({report.first_sample, report.num_samples}, position.left_out);
  tell(
      fmt::format("step {}: the loss of {} is a spike (z-score {:.1f}); the run goes back to step "
                  "{} and leaves out the {} samples from number {} on",
                  report.step, report.loss, report.z_score, report.resumed_step, report.num_samples,
                  report.first_sample));
  if (!is_first()) return position;
  const std::string path = options_.out_dir + "/metrics.jsonl";
  Result<MetricsFile> metrics =
      MetricsFile::resume_after_failure(path, position.step, run_fields(options_, plan_));
  records.metrics.emplace(metrics.ok() ? std::move(*metrics)
                                       : MetricsFile::missing(path, metrics.error().message));
  records.metrics->rotate_at(plan_.config.run.metrics_bytes, run_fields(options_, plan_));
  records.metrics->tell_losses_to(options_.observers);
  for (RunObserver* observer : records.observers) observer->on_rollback(report);
  return position;
}

}  // namespace trireme
