#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/order_statistics.h"
#include "train/histograms.h"
#include "watch/progress_page.h"

namespace trireme {
namespace {

// A run is given up after so many steps in a row without an update. A loss scale that starts too
// high fits long before.
constexpr int64_t kMostSkipsInARow = 32;

}  // namespace

bool has_settled(const RunSection& run, const TrainPosition& position) {
  return run.stop_patience > 0 && position.validations_since_best >= run.stop_patience;
}

bool is_at_stop(const RunSection& run, const TrainPosition& position) {
  return run.stop_after > 0 && position.step >= run.stop_after;
}

Trainer::Trainer(TrainerParts parts, CheckpointSaver::MakeRequest request,
                 const LrSchedule& schedule)
    : parts_(std::move(parts)),
      saver_(
          std::make_unique<CheckpointSaver>(parts_.engine, std::move(request), parts_.observers)),
      schedule_(schedule),
      best_saves_(parts_.plan.config.checkpoint, parts_.kept_best),
      disk_saves_(parts_.plan.config.checkpoint.every, 0),
      memory_saves_(parts_.plan.config.checkpoint.memory_every, 0),
      ceiling_(parts_.peak_flops, parts_.measure_peak) {
  const auto tell = [observers = parts_.observers](const std::string& message) {
    for (RunObserver* observer : observers) observer->on_message(message);
  };
  if (parts_.memory_request && wants_memory_checkpoints(parts_.plan.config)) {
    memory_saver_ =
        std::make_unique<MemorySaver>(parts_.engine, parts_.memory, parts_.memory_request, tell);
  }
  // They keep the addresses of the state, which the line above may change.
  checks_ = std::make_unique<CorruptionChecks>(parts_.engine, parts_.plan.config.run);
  step_seconds_.reserve(size_t(parts_.plan.config.run.steps));
  const std::optional<Frame> params = parts_.engine.whole_params();
  const bool is_wanted = parts_.tokenizer != nullptr && parts_.plan.config.run.sample_every > 0;
  if (is_wanted && params && !parts_.observers.empty()) {
    samples_ =
        std::make_unique<TextSamples>(parts_.plan, parts_.engine, *params, *parts_.tokenizer, tell);
  }
}

Result<Trainer> Trainer::make(TrainerParts parts, CheckpointSaver::MakeRequest request) {
  const LrSchedule schedule(parts.plan.config.optim, parts.plan.config.run.steps);
  return Trainer(std::move(parts), std::move(request), schedule);
}

Result<TrainEnd> Trainer::run(TrainPosition position) {
  position_ = position;
  saved_step_ = position.step;
  disk_saves_.note_save(position.step);
  memory_saves_.note_save(position.step);
  agree_at_ = position.step + 1;
  parts_.engine.optimizer().set_num_updates(position.num_updates);
  LossScale& scale = parts_.engine.loss_scale();
  if (scale.is_dynamic() && position.loss_scale.scale > 0.0) scale.set_state(position.loss_scale);
  checks_->resume_after(position.clean_step);
  Result<TrainEnd> end = run_steps();
  // The checkpoint that is still being written is waited for. If it is the last one, the run fails
  // with it.
  if (memory_saver_ != nullptr) memory_saver_->finish();  // all ranks end alike
  const Status written = saver_->finish();
  if (end.ok() && !written.ok()) return written.error();
  return end;
}

Result<TrainEnd> Trainer::run_steps() {
  const std::string why_not = checks_->why_not();
  if (!why_not.empty()) tell(why_not);
  const RunSection& run = parts_.plan.config.run;
  ProgressPage& page = parts_.engine.world().page();
  while (position_.step < run.steps) {
    const StepReport report = run_step();
    page.enter(RankPhase::Save, monotonic_ns());
    saver_->advance();
    tell_memory();
    tell_step(report);
    TRIREME_TRY_DONE(check_progress(report));
    TRIREME_TRY_DONE(checks_->verdict(report.step, saves_next()));
    position_.clean_step = checks_->clean_step();
    const bool may_spike = run.spike == SpikeChoice::Rollback && !stop_;
    if (may_spike && spike_.sees(report.loss)) return TrainEnd::Spiked;
    page.enter(RankPhase::Evaluate, monotonic_ns());
    if (is_due(report.step, run.eval_every) || report.step == run.steps) evaluate();
    if (is_due(report.step, run.sample_every)) {
      write_sample();
      parts_.engine.world().monitored_barrier();
    }
    if (is_due(report.step, run.histograms_every)) count_histograms(report.tokens);
    page.enter(RankPhase::Save, monotonic_ns());
    const bool stop = stop_ && position_.step < run.steps;
    if (stop) {
      TRIREME_TRY_DONE(save_last_checkpoint());
      return TrainEnd::Stopped;
    }
    TRIREME_TRY_DONE(save_if_wanted());
    if (has_settled(run, position_) && position_.step < run.steps) return settle();
    begin_memory_checkpoint();
    agree_on_intervals();
  }
  TRIREME_TRY_DONE(check_updated());
  if (parts_.plan.config.checkpoint.at_end) TRIREME_TRY_DONE(save_last_checkpoint());
  return TrainEnd::Finished;
}

// Such a run is too short to be given up as diverged, but its weights are those of its start.
Status Trainer::check_updated() const {
  const bool has_updated = position_.skipped_steps < position_.step;
  if (position_.step == 0 || has_updated) return Done{};
  return Error{
      ErrorKind::Runtime,
      fmt::format("step {}: no gradient was finite in any step of this run, so nothing was "
                  "trained, and its last step has no checkpoint; {}",
                  position_.step, advice_without_updates())};
}

// The learning rate has no part in this: the weights are still the first ones.
std::string Trainer::advice_without_updates() const {
  const std::string_view others =
      "compute in another precision (precision.compute = \"fp32\"), lower model.init_stddev, or, "
      "if the run begins with weights of a checkpoint, look at those";
  const LossScale& scale = parts_.engine.loss_scale();
  if (!scale.is_dynamic()) return std::string(others);
  return fmt::format(
      "lower precision.loss_scale = {:.0f}, which is halved in every such step and "
      "is now {:.0f}, or {}",
      parts_.plan.config.precision.loss_scale, scale.value(), others);
}

void Trainer::tell(const std::string& message) const {
  for (RunObserver* observer : parts_.observers) observer->on_message(message);
}

void Trainer::tell_step(const StepReport& report) {
  if (parts_.observers.empty()) return;
  const ShownCall call(&parts_.engine.world().progress(), "write", "the records of the run");
  for (RunObserver* observer : parts_.observers) observer->on_step(report);
}

Status Trainer::check_progress(const StepReport& report) {
  skips_in_a_row_ = report.skipped ? skips_in_a_row_ + 1 : 0;
  if (skips_in_a_row_ < kMostSkipsInARow) return Done{};
  TRIREME_TRY_DONE(check_updated());
  return Error{
      ErrorKind::Runtime,
      fmt::format("step {}: no gradient was finite for {} steps: the run has diverged; lower "
                  "optim.lr, lengthen optim.warmup_steps or set optim.clip_norm, and start "
                  "again or resume from an earlier checkpoint",
                  report.step, skips_in_a_row_)};
}

Result<TrainEnd> Trainer::settle() {
  TRIREME_TRY_DONE(save_last_checkpoint());
  tell(fmt::format(
      "step {}: the run ends here, because its {} last validations were not better than that of "
      "step {} ({:.4f}), as run.stop_patience = {} says",
      position_.step, position_.validations_since_best, position_.best_validation.step,
      position_.best_validation.loss, parts_.plan.config.run.stop_patience));
  return TrainEnd::Settled;
}

void Trainer::evaluate() {
  if (parts_.validation == nullptr) return;
  const int64_t begin_ns = monotonic_ns();
  const EvalResult result =
      parts_.engine.evaluate(*parts_.validation, parts_.plan.config.run.eval_sequences);
  EvalReport report;
  report.step = position_.step;
  report.val_loss = result.mean();
  if (parts_.bytes_per_token > 0.0) {
    report.bits_per_byte = report.val_loss / std::log(2.0) / parts_.bytes_per_token;
  }
  if (parts_.plan.model.reads_images() && result.valid_tokens > 0) {
    report.accuracy = double(result.num_hits) / double(result.valid_tokens);
  }
  report.seconds = seconds_since(begin_ns);
  report.epoch = epoch();
  const std::string note = validations_.see({report.step, report.val_loss}, position_);
  if (position_.best_validation.is_known()) {
    report.best_loss = position_.best_validation.loss;
    report.best_step = position_.best_validation.step;
  }
  for (RunObserver* observer : parts_.observers) observer->on_eval(report);
  if (!note.empty()) tell(note);
}

void Trainer::write_sample() {
  if (samples_ == nullptr) return;
  const std::optional<SampleReport> report = samples_->write(position_.step);
  if (!report) return;
  for (RunObserver* observer : parts_.observers) observer->on_sample(*report);
}

void Trainer::count_histograms(int64_t valid_tokens) {
  HistogramReport report = gather_histograms(parts_.engine, valid_tokens);
  report.step = position_.step;
  for (RunObserver* observer : parts_.observers) observer->on_histograms(report);
}

bool Trainer::should_stop_after(int64_t step) const {
  const int64_t stop_after = parts_.plan.config.run.stop_after;
  const bool must_stop = parts_.must_stop && parts_.must_stop();
  return must_stop || parts_.stop_signals.load(std::memory_order_relaxed) > 0 ||
         (stop_after > 0 && step >= stop_after);
}

bool Trainer::saves_next() const {
  const int64_t step = position_.step;
  const RunSection& run = parts_.plan.config.run;
  const bool may_be_best = best_saves_.is_on() && is_due(step, run.eval_every);
  return stop_ || step == run.steps || disk_saves_.is_due(step) || may_be_best ||
         (memory_saver_ != nullptr && memory_saves_.is_due(step));
}

double Trainer::median_step_s() const {
  if (step_seconds_.empty()) return 0.0;
  std::vector<double> steady = step_seconds_;
  if (steady.size() > 4) steady.erase(steady.begin(), steady.begin() + 2);
  return upper_median(std::move(steady));
}

}  // namespace trireme
