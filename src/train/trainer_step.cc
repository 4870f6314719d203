// One step of the trainer, and what it reports.
#include <algorithm>
#include <utility>

#include "train/expert_load.h"
#include "train/left_out_samples.h"
#include "train/trainer.h"
#include "watch/progress_page.h"

namespace trireme {

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
  report_result(result, report);
  if (small) {
    noise_scale_.add(*small, {report.grad_norm, report.tokens});
    report.noise_scale = noise_scale_.tokens();
  }
  report_speed(report);
  advance_position(report);
  return report;
}

// What the step has computed.
void Trainer::report_result(const StepResult& result, StepReport& report) const {
  const RunPlan& plan = parts_.plan;
  report.loss = result.loss_sum / double(std::max<int64_t>(1, result.valid_tokens));
  report.grad_norm = result.update.grad_norm;
  report.skipped = result.update.skipped;
  report.tokens = result.valid_tokens;
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
}

void Trainer::report_speed(StepReport& report) {
  report.tokens_per_s = double(parts_.plan.tokens_per_step()) / report.step_s;
  const double flops_per_s = report.tokens_per_s * parts_.plan.flops_per_token.total();
  const std::string raised = ceiling_.see(report.step, flops_per_s);
  if (!raised.empty()) tell(raised);
  report.mfu = ceiling_.mfu(flops_per_s);
  report.peak_bytes = parts_.engine.peak_bytes();
}

void Trainer::advance_position(StepReport& report) {
  const RunPlan& plan = parts_.plan;
  const LossScale& scale = parts_.engine.loss_scale();
  position_.step = report.step;
  position_.next_sample += uint64_t(plan.global_sequences);
  position_.tokens_seen += plan.tokens_per_step();
  position_.num_updates = parts_.engine.optimizer().num_updates();
  if (scale.is_dynamic()) position_.loss_scale = scale.state();
  position_.skipped_steps += report.skipped ? 1 : 0;
  report.skipped_steps = position_.skipped_steps;
  report.epoch = epoch();
  validations_.note_step(report.loss);
  step_seconds_.push_back(report.step_s);
  last_loss_ = report.loss;
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

std::optional<double> Trainer::epoch() const {
  const double epochs =
      parts_.train == nullptr ? 0.0 : parts_.train->epochs_of(position_.next_sample);
  return epochs > 0.0 ? std::optional(epochs) : std::nullopt;
}

}  // namespace trireme
