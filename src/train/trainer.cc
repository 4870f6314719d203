#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/order_statistics.h"
#include "train/expert_load.h"
#include "train/generate.h"
#include "train/histograms.h"
#include "train/left_out_samples.h"
#include "watch/progress_page.h"

namespace trireme {
namespace {

double seconds_since(int64_t begin_ns) { return double(monotonic_ns() - begin_ns) * 1e-9; }

bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

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
      memory_saves_(parts_.plan.config.checkpoint.memory_every, 0) {
  if (parts_.memory_request && wants_memory_checkpoints(parts_.plan.config)) {
    const auto tell = [observers = parts_.observers](const std::string& message) {
      for (RunObserver* observer : observers) observer->on_message(message);
    };
    memory_saver_ =
        std::make_unique<MemorySaver>(parts_.engine, parts_.memory, parts_.memory_request, tell);
  }
  // They keep the addresses of the state, which the line above may change.
  checks_ = std::make_unique<CorruptionChecks>(parts_.engine, parts_.plan.config.run);
  step_seconds_.reserve(size_t(parts_.plan.config.run.steps));
  const std::optional<Frame> params = parts_.engine.whole_params();
  const bool is_wanted = parts_.tokenizer != nullptr && parts_.plan.config.run.sample_every > 0;
  if (is_wanted && params && !parts_.observers.empty()) {
    decoder_params_ = *params;
    decoder_ =
        std::make_unique<Decoder>(parts_.plan.model, decoder_params_, parts_.plan.shape.compute);
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
  for (RunObserver* observer : parts_.observers) {
    if (!why_not.empty()) observer->on_message(why_not);
  }
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
      sample();
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

// Each micro-batch has its turn. The measurement is not a part of the step's time.
std::optional<GradNorm> Trainer::measure_small_batch() {
  const int64_t every = parts_.plan.config.run.noise_scale_every, step = position_.step + 1;
  if (!is_due(step, every)) return std::nullopt;
  const int64_t num_microbatches = parts_.plan.global_sequences / parts_.plan.shape.micro_sequences;
  return parts_.engine.measure_gradient(position_.next_sample, step / every % num_microbatches);
}

uint64_t Trainer::next_batch(uint64_t first_sample) const {
  return next_whole_batch(position_.left_out, first_sample, parts_.plan.global_sequences);
}

void Trainer::skip_left_out() {
  const uint64_t next = next_batch(position_.next_sample);
  const SkipReport report{.step = position_.step + 1,
                          .first_sample = int64_t(position_.next_sample),
                          .num_samples = int64_t(next - position_.next_sample)};
  position_.next_sample = next;
  if (report.num_samples == 0) return;
  for (RunObserver* observer : parts_.observers) observer->on_skip(report);
}

StepReport Trainer::run_step() {
  const RunPlan& plan = parts_.plan;
  ProgressPage& page = parts_.engine.world().page();
  skip_left_out();
  page.show_batch(int64_t(position_.next_sample), plan.global_sequences);
  const std::optional<GradNorm> small = measure_small_batch();
  checks_->begin(position_.step + 1, position_.next_sample);
  const int64_t begin_ns = monotonic_ns();
  if (parts_.meter != nullptr) parts_.meter->begin();
  StepReport report;
  report.step = position_.step + 1;
  report.total_steps = plan.config.run.steps;
  report.lr = schedule_.at(report.step);
  const LossScale& scale = parts_.engine.loss_scale();
  report.loss_scale = scale.is_dynamic() ? scale.value() : 0.0;
  if (parts_.before_step) parts_.before_step();
  if (memory_saver_ != nullptr) memory_saver_->expect_start(saves_in_memory_after(report.step));
  const bool stop = should_stop_after(report.step);
  const double saving_before_s = saving_s();
  const int64_t waited_ns = page.waited_ns();
  page.begin_step(report.step, monotonic_ns());
  const StepResult result = parts_.step ? parts_.step(report.lr, stop)
                                        : parts_.engine.step(position_.next_sample, report.lr, stop,
                                                             next_sample_after(report.step));
  page.show_batch(0, 0);
  stop_ = result.stop;
  report.step_s = seconds_since(begin_ns);
  page.end_step(int64_t(report.step_s * 1e9),
                int64_t(report.step_s * 1e9) - (page.waited_ns() - waited_ns),
                result.update.skipped ? skips_in_a_row_ + 1 : 0);
  checks_->end(report.step, result);
  if (parts_.trace != nullptr) parts_.trace->record(report.step, parts_.engine.executor());
  if (parts_.meter != nullptr) parts_.meter->record(parts_.engine.executor(), report.step_s);
  divide_time(saving_s() - saving_before_s, report);
  report.loss = result.loss_sum / double(std::max<int64_t>(1, result.valid_tokens));
  report.grad_norm = result.update.grad_norm;
  report.skipped = result.update.skipped;
  report.tokens = result.valid_tokens;
  if (small) {
    noise_scale_.add(*small, {report.grad_norm, report.tokens});
    report.noise_scale = noise_scale_.tokens();
  }
  if (const std::span<const float> logits = result.largest_logits; !logits.empty()) {
    report.max_logit = *std::max_element(logits.begin(), logits.end());
    report.clipped_heads = std::count_if(logits.begin(), logits.end(), [&](float logit) {
      return !report.skipped && double(logit) > plan.config.optim.qk_clip;
    });
  }
  report.expert_loads = result.expert_loads;
  report.num_experts = result.expert_loads.empty() ? 0 : plan.model.experts;
  const RouterLossMeans routers =
      router_loss_means(result.router_losses, plan.model, plan.tokens_per_step());
  report.aux_loss = routers.aux;
  report.z_loss = routers.z;
  if (plan.model.mtp_depth > 0) {
    const double predictions = double(plan.model.mtp_depth) * double(result.valid_tokens);
    report.mtp_loss = predictions > 0.0 ? result.ahead_loss_sum / predictions : 0.0;
  }
  report.tokens_per_s = double(plan.tokens_per_step()) / report.step_s;
  count_mfu(report);

  position_.step = report.step;
  position_.next_sample += uint64_t(plan.global_sequences);
  position_.tokens_seen += plan.tokens_per_step();
  position_.num_updates = parts_.engine.optimizer().num_updates();
  if (scale.is_dynamic()) position_.loss_scale = scale.state();
  position_.skipped_steps += report.skipped ? 1 : 0;
  report.skipped_steps = position_.skipped_steps;
  report.epoch = epoch();
  report.peak_bytes = parts_.engine.peak_bytes();
  validations_.note_step(report.loss);
  step_seconds_.push_back(report.step_s);
  last_loss_ = report.loss;
  return report;
}

void Trainer::count_mfu(StepReport& report) {
  if (parts_.peak_flops <= 0.0) return;
  const double flops_per_s = report.tokens_per_s * parts_.plan.flops_per_token.total();
  if (flops_per_s > parts_.peak_flops) raise_peak(report.step, flops_per_s);
  report.mfu = flops_per_s / parts_.peak_flops;
}

// Perhaps others used the cores while the ceiling was measured. A step is slower than the true
// ceiling, so this is measured again, a few times at most.
void Trainer::raise_peak(int64_t step, double flops_per_s) {
  constexpr int kMostMeasured = 3;
  const double before = std::exchange(parts_.peak_flops, flops_per_s);
  const bool measures = parts_.measure_peak && num_peaks_measured_ < kMostMeasured;
  if (measures) {
    ++num_peaks_measured_;
    parts_.peak_flops = std::max(flops_per_s, parts_.measure_peak());
  }
  if (raised_peak_) return;
  raised_peak_ = {.step = step, .before = before};
  const bool is_step = parts_.peak_flops == flops_per_s;
  for (RunObserver* observer : parts_.observers) {
    observer->on_message(fmt::format(
        "step {} computed {:.1f} GFLOP/s, more than the ceiling of {:.1f} GFLOP/s that was "
        "measured at the start, perhaps while others used the cores. The ceiling was raised to "
        "{:.1f} GFLOP/s, {}; MFU is computed with it from now on",
        step, flops_per_s * 1e-9, before * 1e-9, parts_.peak_flops * 1e-9,
        is_step ? "the rate of this step" : "which was measured now"));
  }
}

// `saving_s`: how long the step itself stood still for a save.
void Trainer::divide_time(double saving_s, StepReport& report) {
  if (parts_.meter != nullptr) {
    report.exposed_comm_s = parts_.meter->newest().exposed_comm;
    report.bubble_s = parts_.meter->newest().bubble;
  }
  const double waited_s = report.exposed_comm_s + report.bubble_s + saving_s;
  report.compute_s = std::max(0.0, report.step_s - waited_s);
  report.saving_s = this->saving_s() - reported_saving_s_;
  reported_saving_s_ += report.saving_s;
  report.straggler_s = std::exchange(straggler_s_, 0.0);
  compute_s_ += report.compute_s;
  exposed_s_ += report.exposed_comm_s;
  bubble_s_ += report.bubble_s;
  ++num_computed_;
}

Result<TrainEnd> Trainer::settle() {
  TRIREME_TRY_DONE(save_last_checkpoint());
  for (RunObserver* observer : parts_.observers) {
    observer->on_message(fmt::format(
        "step {}: the run ends here, because its {} last validations were not better than that of "
        "step {} ({:.4f}), as run.stop_patience = {} says",
        position_.step, position_.validations_since_best, position_.best_validation.step,
        position_.best_validation.loss, parts_.plan.config.run.stop_patience));
  }
  return TrainEnd::Settled;
}

std::optional<double> Trainer::epoch() const {
  const double epochs =
      parts_.train == nullptr ? 0.0 : parts_.train->epochs_of(position_.next_sample);
  return epochs > 0.0 ? std::optional(epochs) : std::nullopt;
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
  for (RunObserver* observer : parts_.observers) {
    observer->on_eval(report);
    if (!note.empty()) observer->on_message(note);
  }
}

void Trainer::sample() {
  if (decoder_ == nullptr) return;
  const RunSection& run = parts_.plan.config.run;
  const Result<std::vector<int32_t>> prompt = parts_.tokenizer->encode(run.sample_prompt);
  if (!prompt.ok()) {
    tell_of_samples(prompt.error().message);
    return;
  }
  Progress& progress = parts_.engine.world().progress();
  const ShownCall call(&progress, "generation", "run.sample_prompt");
  TokenSampler sampler({.seed = run.seed}, parts_.tokenizer->vocab_size());
  SampleReport report{position_.step, run.sample_prompt};
  generate(parts_.engine.ctx(), *decoder_, *parts_.tokenizer, sampler, *prompt, run.sample_tokens,
           {.emit =
                [&](int32_t token) {
                  report.text += parts_.tokenizer->piece(token);
                  progress.advance();
                  return true;
                },
            .note = [this](const std::string& sentence) { tell_of_samples(sentence); }});
  for (RunObserver* observer : parts_.observers) observer->on_sample(report);
}

void Trainer::tell_of_samples(const std::string& sentence) {
  if (!told_of_samples_.insert(sentence).second) return;
  for (RunObserver* observer : parts_.observers) {
    observer->on_message("run.sample_prompt: " + sentence);
  }
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

// Depends only on the configuration and on what all ranks have agreed on.
std::optional<uint64_t> Trainer::next_sample_after(int64_t step) const {
  const RunSection& run = parts_.plan.config.run;
  const bool is_last = step == run.steps || step == run.stop_after;
  const bool is_interrupted =
      is_due(step, run.eval_every) || is_due(step, run.sample_every) ||
      is_due(step, run.histograms_every) || is_due(step + 1, run.noise_scale_every) ||
      checks_->needs_end_of(step) || (disk_saves_.is_due(step) && !parts_.plan.takes_snapshots);
  // With skip_bad_batches, a failure must name the samples of its own step. So no step begins
  // early.
  const bool may_go_back = run.spike == SpikeChoice::Rollback || run.skip_bad_batches;
  if (is_last || is_interrupted || may_go_back) return std::nullopt;
  return next_batch(position_.next_sample + uint64_t(parts_.plan.global_sequences));
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
