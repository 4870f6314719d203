#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "train/expert_load.h"
#include "train/histograms.h"

namespace trireme {
namespace {

double seconds_since(int64_t begin_ns) { return double(monotonic_ns() - begin_ns) * 1e-9; }

bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

// A run is given up after so many steps in a row without an update. A loss scale that starts too
// high fits long before.
constexpr int64_t kMostSkipsInARow = 32;

}  // namespace

Trainer::Trainer(TrainerParts parts, CheckpointSaver::MakeRequest request,
                 const LrSchedule& schedule)
    : parts_(std::move(parts)),
      saver_(
          std::make_unique<CheckpointSaver>(parts_.engine, std::move(request), parts_.observers)),
      schedule_(schedule) {
  if (parts_.memory_request && wants_memory_checkpoints(parts_.plan.config)) {
    const auto tell = [observers = parts_.observers](const std::string& message) {
      for (RunObserver* observer : observers) observer->on_message(message);
    };
    memory_saver_ =
        std::make_unique<MemorySaver>(parts_.engine, parts_.memory, parts_.memory_request, tell);
  }
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
  parts_.engine.optimizer().set_num_updates(position.num_updates);
  LossScale& scale = parts_.engine.loss_scale();
  if (scale.is_dynamic() && position.loss_scale.scale > 0.0) scale.set_state(position.loss_scale);
  Result<TrainEnd> end = run_steps();
  // The checkpoint that is still being written is waited for. If it is the last one, the run fails
  // with it.
  const Status written = saver_->finish();
  if (end.ok() && !written.ok()) return written.error();
  return end;
}

Result<TrainEnd> Trainer::run_steps() {
  const RunSection& run = parts_.plan.config.run;
  while (position_.step < run.steps) {
    const StepReport report = run_step();
    saver_->advance();
    if (memory_saver_ != nullptr) memory_saver_->finish();
    tell_step(report);
    TRIREME_TRY_DONE(check_progress(report));
    if (is_due(report.step, run.eval_every) || report.step == run.steps) evaluate();
    if (is_due(report.step, run.sample_every)) {
      sample();
      parts_.engine.world().monitored_barrier();
    }
    if (is_due(report.step, run.histograms_every)) count_histograms(report.tokens);
    const bool stop = stop_ && position_.step < run.steps;
    if (stop) {
      TRIREME_TRY_DONE(save_last_checkpoint());
      return TrainEnd::Stopped;
    }
    if (is_due(report.step, parts_.plan.config.checkpoint.every)) {
      const bool is_last = report.step == run.steps;
      TRIREME_TRY_DONE(save_checkpoint(is_last || !parts_.plan.takes_snapshots));
    }
    begin_memory_checkpoint();
  }
  if (parts_.plan.config.checkpoint.at_end) TRIREME_TRY_DONE(save_last_checkpoint());
  return TrainEnd::Finished;
}

void Trainer::tell_step(const StepReport& report) {
  if (parts_.observers.empty()) return;
  const ShownCall call(&parts_.engine.world().progress(), "write", "the records of the run");
  for (RunObserver* observer : parts_.observers) observer->on_step(report);
}

Status Trainer::check_progress(const StepReport& report) {
  skips_in_a_row_ = report.skipped ? skips_in_a_row_ + 1 : 0;
  if (skips_in_a_row_ < kMostSkipsInARow) return Done{};
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

StepReport Trainer::run_step() {
  const RunPlan& plan = parts_.plan;
  const std::optional<GradNorm> small = measure_small_batch();
  const int64_t begin_ns = monotonic_ns();
  if (parts_.meter != nullptr) parts_.meter->begin();
  StepReport report;
  report.step = position_.step + 1;
  report.total_steps = plan.config.run.steps;
  report.lr = schedule_.at(report.step);
  const LossScale& scale = parts_.engine.loss_scale();
  report.loss_scale = scale.is_dynamic() ? scale.value() : 0.0;
  const bool stop = should_stop_after(report.step);
  const StepResult result = parts_.step ? parts_.step(report.lr, stop)
                                        : parts_.engine.step(position_.next_sample, report.lr, stop,
                                                             next_sample_after(report.step));
  stop_ = result.stop;
  report.step_s = seconds_since(begin_ns);
  if (parts_.trace != nullptr) parts_.trace->record(report.step, parts_.engine.executor());
  if (parts_.meter != nullptr) parts_.meter->record(parts_.engine.executor(), report.step_s);
  report.loss = result.loss_sum / double(std::max<int64_t>(1, result.valid_tokens));
  report.grad_norm = result.update.grad_norm;
  report.skipped = result.update.skipped;
  report.tokens = result.valid_tokens;
  if (small) {
    noise_scale_.add(*small, {report.grad_norm, report.tokens});
    report.noise_scale = noise_scale_.tokens();
  }
  report.expert_loads = result.expert_loads;
  report.num_experts = result.expert_loads.empty() ? 0 : plan.model.experts;
  const RouterLossMeans routers =
      router_loss_means(result.router_losses, plan.model, plan.tokens_per_step());
  report.aux_loss = routers.aux;
  report.z_loss = routers.z;
  report.tokens_per_s = double(plan.tokens_per_step()) / report.step_s;
  if (parts_.peak_flops > 0.0) {
    const double flops_per_s = report.tokens_per_s * plan.flops_per_token.total();
    // A step that beats the ceiling shows that it was measured while others took the cores.
    parts_.peak_flops = std::max(parts_.peak_flops, flops_per_s);
    report.mfu = flops_per_s / parts_.peak_flops;
  }

  position_.step = report.step;
  position_.next_sample += uint64_t(plan.global_sequences);
  position_.tokens_seen += plan.tokens_per_step();
  position_.num_updates = parts_.engine.optimizer().num_updates();
  if (scale.is_dynamic()) position_.loss_scale = scale.state();
  position_.skipped_steps += report.skipped ? 1 : 0;
  report.skipped_steps = position_.skipped_steps;
  step_seconds_.push_back(report.step_s);
  last_loss_ = report.loss;
  return report;
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
  report.seconds = seconds_since(begin_ns);
  for (RunObserver* observer : parts_.observers) observer->on_eval(report);
}

void Trainer::sample() {
  if (decoder_ == nullptr) return;
  const RunSection& run = parts_.plan.config.run;
  const Result<std::vector<int32_t>> prompt = parts_.tokenizer->encode(run.sample_prompt);
  if (!prompt.ok()) {
    for (RunObserver* observer : parts_.observers) {
      observer->on_message("run.sample_prompt: " + prompt.error().message);
    }
    return;
  }
  Progress& progress = parts_.engine.world().progress();
  const ShownCall call(&progress, "generation", "run.sample_prompt");
  TokenSampler sampler({.seed = run.seed}, parts_.tokenizer->vocab_size());
  SampleReport report{position_.step, run.sample_prompt};
  generate(parts_.engine.ctx(), *decoder_, *parts_.tokenizer, sampler, *prompt, run.sample_tokens,
           [&](int32_t token) {
             report.text += parts_.tokenizer->piece(token);
             progress.advance();
           });
  for (RunObserver* observer : parts_.observers) observer->on_sample(report);
}

void Trainer::count_histograms(int64_t valid_tokens) {
  HistogramReport report = gather_histograms(parts_.engine, valid_tokens);
  report.step = position_.step;
  for (RunObserver* observer : parts_.observers) observer->on_histograms(report);
}

Status Trainer::save_checkpoint(bool waits) {
  if (saved_step_ == position_.step) return Done{};
  if (!std::isfinite(last_loss_)) {  // saving would remove a checkpoint that is still good
    for (RunObserver* observer : parts_.observers) {
      observer->on_message(
          fmt::format("step {}: not saved: the loss is not finite", position_.step));
    }
    return Done{};
  }
  if (waits) {
    TRIREME_TRY_DONE(saver_->save(position_));
  } else {
    saver_->start(position_);
  }
  saved_step_ = position_.step;
  return Done{};
}

void Trainer::begin_memory_checkpoint() {
  const bool is_last = position_.step == parts_.plan.config.run.steps;
  const bool is_wanted = memory_saver_ != nullptr && !is_last && std::isfinite(last_loss_);
  if (!is_wanted || !is_due(position_.step, parts_.plan.config.checkpoint.memory_every)) return;
  memory_saver_->start(position_);
}

SaveCounts Trainer::saves() const {
  SaveCounts counts = saver_->counts();
  if (memory_saver_ != nullptr) {
    counts.in_memory = memory_saver_->saved();
    counts.memory_stall_s = memory_saver_->stall_s();
    counts.memory_sent_bytes = memory_saver_->sent_bytes();
  }
  return counts;
}

Status Trainer::save_last_checkpoint() {
  TRIREME_TRY_DONE(save_checkpoint(true));
  if (saved_step_ == position_.step) return Done{};
  return Error{
      ErrorKind::Runtime,
      fmt::format("step {}: the run ends without a checkpoint of its last step, because the loss "
                  "is not finite; lower optim.lr, and start again or resume from an "
                  "earlier checkpoint",
                  position_.step)};
}

bool Trainer::should_stop_after(int64_t step) const {
  const int64_t stop_after = parts_.plan.config.run.stop_after;
  const bool must_stop = parts_.must_stop && parts_.must_stop();
  return must_stop || parts_.stop_signals.load(std::memory_order_relaxed) > 0 ||
         (stop_after > 0 && step >= stop_after);
}

// Depends only on the configuration, so all ranks agree.
std::optional<uint64_t> Trainer::next_sample_after(int64_t step) const {
  const RunSection& run = parts_.plan.config.run;
  const bool is_last = step == run.steps || step == run.stop_after;
  const bool is_interrupted =
      is_due(step, run.eval_every) || is_due(step, run.sample_every) ||
      is_due(step, run.histograms_every) || is_due(step + 1, run.noise_scale_every) ||
      (is_due(step, parts_.plan.config.checkpoint.every) && !parts_.plan.takes_snapshots);
  if (is_last || is_interrupted) return std::nullopt;
  return position_.next_sample + uint64_t(parts_.plan.global_sequences);
}

double Trainer::median_step_s() const {
  if (step_seconds_.empty()) return 0.0;
  std::vector<double> steady = step_seconds_;
  if (steady.size() > 4) steady.erase(steady.begin(), steady.begin() + 2);
  const auto middle = steady.begin() + int64_t(steady.size() / 2);
  std::nth_element(steady.begin(), middle, steady.end());
  return *middle;
}

void generate(Ctx& ctx, Decoder& decoder, const Tokenizer& tokenizer, TokenSampler& sampler,
              std::vector<int32_t> prompt, int64_t num_tokens,
              const std::function<void(int32_t token)>& emit) {
  // If the context is full, its later half begins a new context.
  const int64_t half = std::max<int64_t>(1, decoder.capacity() / 2);
  std::vector<int32_t> context = std::move(prompt);
  if (context.empty()) context.push_back(tokenizer.end_of_text());
  std::vector<int32_t> pending = context;
  decoder.reset();
  for (int64_t i = 0; i < num_tokens; ++i) {
    if (decoder.length() + int64_t(pending.size()) > decoder.capacity()) {
      const int64_t kept = std::min<int64_t>(half, int64_t(context.size()));
      pending.assign(context.end() - kept, context.end());
      decoder.reset();
    }
    const int32_t token = sampler.sample(decoder.append(ctx, pending), uint64_t(i));
    if (token == tokenizer.end_of_text()) return;
    emit(token);
    context.push_back(token);
    pending.assign(1, token);
  }
}

}  // namespace trireme
