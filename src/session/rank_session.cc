#include "session/rank_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "checkpoint/best_checkpoint.h"
#include "device/host.h"
#include "planner/plan_warnings.h"
#include "schema/parity_code.h"
#include "schema/sample_ranges.h"
#include "session/first_steps.h"
#include "session/idle_checks.h"
#include "session/rank_hardware.h"
#include "session/resume.h"
#include "session/resumed_config.h"
#include "session/run_records.h"
#include "train/left_out_samples.h"
#include "train/run_state.h"
#include "watch/progress_page.h"

namespace trireme {

double RankSession::peak_flops() const {
  return plan_.shape.compute == DType::BF16 ? measured_.peaks.bf16_flops_per_s
                                            : measured_.peaks.fp32_flops_per_s;
}

// Adds the samples of run.skip_samples and those that the job leaves out to those of the
// checkpoint.
void RankSession::add_left_out(TrainPosition& position) const {
  const auto configured = parse_sample_ranges(plan_.config.run.skip_samples);
  for (const SampleRange& range : configured.value()) leave_out(range, position.left_out);
  if (!options_.order) return;
  for (int i = 0; i < options_.order->num_left_out; ++i) {
    leave_out(options_.order->left_out[size_t(i)], position.left_out);
  }
}

Result<TrainPosition> RankSession::start() {
  TRIREME_TRY(position, load());
  add_left_out(position);
  return position;
}

Result<TrainPosition> RankSession::load() {
  MemoryResume memory(world_, options_, engine_);
  TRIREME_TRY(latest_step, agree_on_latest_step(memory));
  SessionOptions options = options_;
  if (latest_step < INT64_MAX) {
    options.before_step = std::min(options.before_step, latest_step + 1);
    memory.leave_out_after(latest_step);
  }
  TRIREME_TRY(resumed, agree_on_resume(world_, options, memory));
  resumed_ = std::move(resumed);
  world_.group().page().reach(CrashPoint::Chosen);
  if (resumed_.folder.empty()) {
    engine_.init_params(plan_.config.run.seed);
    if (plan_.model.has_adapters()) {
      tell(
          "warning: model.lora_rank trains adapters beside random weights that stay frozen, "
          "because "
          "nothing is resumed: name the base model with --resume");
    }
    return TrainPosition{};
  }
  TRIREME_TRY(checkpoint, Checkpoint::open(resumed_.folder, options.open_input));
  show_resumed(checkpoint.info().step, memory);
  TRIREME_TRY(changes, changes_since(checkpoint, plan_));
  TRIREME_TRY(position, restore(checkpoint, plan_, engine_));
  world_.group().page().reach(CrashPoint::Restored);
  if (plan_.model.has_adapters() && !has_adapters(checkpoint)) {
    tell(resumed_.name +
         " has no adapters (model.lora_rank): they begin with their initial values");
  }
  memory.remove_folder();
  if (latest_step < INT64_MAX) set_later_aside(latest_step, position.step);
  if (!changes.empty() && position.step > 0) {  // a checkpoint of step 0 holds only weights
    tell(fmt::format("resuming from {} with other settings: {}", resumed_.name, changes));
  }
  if (checkpoint.info().data_identity != data_.identity) {
    tell(resumed_.name +
         " was written with other training data: the run continues with the data "
         "of this configuration");
  }
  const RunSection& run = plan_.config.run;
  if (is_at_stop(run, position) && position.step < run.steps && !options_.order) {
    return Error{ErrorKind::Usage, fmt::format("run.stop_after = {}, but the run is at step {}: "
                                               "remove it or increase it to resume",
                                               run.stop_after, position.step)};
  }
  return position;
}

void RankSession::tell(const std::string& message) const {
  if (!is_first()) return;
  for (RunObserver* observer : options_.observers) observer->on_message(message);
}

void RankSession::tell_crowding() const {
  const HostFacts& host = options_.host;
  const int ranks = ranks_on_host(plan_, host);
  const int64_t threads = int64_t(ranks) * plan_.num_threads;
  if (host.num_cores <= 0 || threads <= host.num_cores) return;
  tell(fmt::format(
      "{} ranks of run.threads_per_rank = {} share {} cores: the prediction gives each an equal "
      "share, and how long they wait for their turns is not in it",
      ranks, plan_.num_threads, host.num_cores));
}

// Tells the user once for a job what is unusual about the plan and the data.
void RankSession::tell_notes() const {
  tell_crowding();
  for (const std::string& warning : plan_warnings(plan_)) tell(warning);
  for (const std::string& note : data_.notes) tell(note);
}

MemoryTier RankSession::memory_tier() const {
  const RunConfig& config = plan_.config;
  MemoryTier tier{.place = {host_name(), options_.memory_folder, options_.failure_domain},
                  .epoch = options_.place ? options_.place->epoch : 1,
                  .parity = parse_parity(config.checkpoint.parity).value(),
                  .timeout_s = config.run.comm_timeout_s};
  if (options_.link != nullptr) tier.job = uint64_t(options_.link->page().job.load());
  return tier;
}

SaveRequest RankSession::save_request(const TrainPosition& position, Result<std::string> root) {
  const bool is_keeper = is_first() || !options_.memory_folder.empty();
  if (attached_.empty() && is_keeper) {
    attached_.push_back({"config.resolved.toml", resolved_toml(plan_)});
    if (data_.tokenizer != nullptr) attached_.push_back({"tokenizer.json", data_.tokenizer_json});
  }
  SaveRequest request{checkpoint_info(plan_, position, data_.identity), attached_, std::move(root),
                      ""};
  if (right_.is_limited()) {
    request.publish = [right = right_](const auto& publish) { return right.publish(publish); };
  }
  return request;
}

SaveRequest RankSession::disk_request(const TrainPosition& position) {
  SaveRequest request = save_request(position, folder_.checkpoint_root());
  const std::string& fallback = plan_.config.checkpoint.fallback_folder;
  if (!fallback.empty()) request.fallback_root = fallback + "/checkpoints";
  return request;
}

std::string RankSession::why_nothing_is_left(const TrainPosition& position) const {
  const RunSection& run = plan_.config.run;
  if (has_settled(run, position)) {
    return fmt::format(
        "{} is of step {}, after which {} validations were not better than that of step {}: the "
        "run has ended by run.stop_patience; raise it to train longer",
        resumed_.name, position.step, position.validations_since_best,
        position.best_validation.step);
  }
  const bool is_whole = position.step >= run.steps;
  const char* const key = is_whole ? "run.steps" : "run.stop_after";
  return fmt::format(
      "{} is of step {} and {} = {}: nothing is left to train; raise {} to train "
      "longer",
      resumed_.name, position.step, key, is_whole ? run.steps : run.stop_after, key);
}

// A job script may resume until the run is done, and a job may lose a rank after its last step.
// Then the run has nothing left to train, and no file is written again, except a summary that the
// lost rank has not written any more.
Result<SessionResult> RankSession::leave_as_it_is(const TrainPosition& position) {
  const std::string message = why_nothing_is_left(position);
  if (options_.resume == ResumeMode::Path && !options_.order) {
    return Error{ErrorKind::Usage, message};
  }
  tell(message);
  steps_->begin(position);
  steps_->finish();
  const RunSection& run = plan_.config.run;
  const bool is_over = position.step >= run.steps || has_settled(run, position);
  SessionResult result{.end = is_over ? TrainEnd::Finished : TrainEnd::Stopped,
                       .position = position,
                       .report_folder = folder_.report_folder()};
  if (options_.order && is_first()) warn(write_late_summary(result));
  return result;
}

// The best checkpoint on disk may differ from the best validation in the position: the run may
// resume in another folder, or a save may have failed. The checkpoint is not verified here; this is
// done when old checkpoints are removed.
Validation RankSession::find_kept_best() {
  Validation best;
  if (is_first() && plan_.config.checkpoint.best == BestChoice::ValLoss) {
    for (const std::string& root : checkpoint_roots(options_)) {
      const auto validated = validated_checkpoints(root);
      if (validated.empty()) continue;
      const ValidatedCheckpoint& found = validated.front();
      if (!best.is_known() || found.loss < best.loss) best = {found.step, found.loss};
    }
  }
  int64_t words[2] = {best.step, std::bit_cast<int64_t>(best.loss)};
  world_.group().monitored_barrier();
  world_.group().broadcast({words, DType::I64, Shape{2}}, 0);
  return {words[0], std::bit_cast<double>(words[1])};
}

bool RankSession::is_epoch_wanted() const {
  return options_.link != nullptr && options_.link->page().wanted_epoch > options_.place->epoch;
}

TrainerParts RankSession::trainer_parts(StepTrace& trace, const RunRecords& records) {
  TrainerParts parts{.plan = plan_,
                     .engine = engine_,
                     .validation = data_.validation.get(),
                     .tokenizer = data_.tokenizer.get(),
                     .bytes_per_token = data_.bytes_per_token,
                     .train = data_.train.get(),
                     .kept_best = find_kept_best(),
                     .peak_flops = peak_flops(),
                     .stop_signals = options_.stop_signals,
                     .must_stop = [this] { return is_epoch_wanted(); },
                     .before_step = [this] { right_.await(); },
                     .trace = &trace,
                     .observers = records.observers};
  if (is_first()) parts.measure_peak = [this] { return measure_peak(); };
  if (wants_memory_checkpoints(plan_.config) && options_.link != nullptr) {
    parts.memory_request = [this](const TrainPosition& at) {
      return save_request(at, options_.memory_folder);
    };
  }
  steps_->direct(parts);
  return parts;
}

// The first rank compares the first steps of a job with their prediction.
void RankSession::watch_first_steps(TrainerParts& parts, std::optional<FirstSteps>& first_steps) {
  if (!is_first() || parts.meter == nullptr || options_.order) return;
  const RankPlan& rank = engine_.rank_plan();
  first_steps.emplace(
      *parts.meter, engine_,
      PredictedSteps{predictions_.at(rank.position).time, predict_ops(plan_, rank, hardware_)},
      [this](const std::string& text) { tell(text); });
  parts.observers.push_back(&*first_steps);
}

Result<SessionResult> RankSession::run() {
  ProgressPage& page = world_.group().page();
  page.set_stage(engine_.rank_plan().coords.pp);
  page.enter(RankPhase::Load, steady_now_ns());
  TRIREME_TRY(position, start());
  const int64_t state_ns = steady_now_ns();
  page.enter(RankPhase::WarmUp, state_ns);
  const RunSection& run = plan_.config.run;
  const bool is_over = position.step >= run.steps || has_settled(run, position);
  if (is_over || is_at_stop(run, position)) return leave_as_it_is(position);
  if (!options_.order) {
    tell_notes();
    for (const std::string& note : idle_checks(plan_.config, position.step)) tell(note);
  }
  measure_machine();
  RunRecords records;
  TRIREME_TRY_DONE(begin_records(position, records));
  StepTrace trace(engine_.rank_plan(), plan_.schedule.num_chunks,
                  position.step + plan_.config.trace.first_step, plan_.config.trace.steps);
  TrainerParts parts = trainer_parts(trace, records);
  std::optional<FirstSteps> first_steps;
  watch_first_steps(parts, first_steps);
  steps_->begin(position);
  if (records.job) records.job->begin(position, resumed_, joined_ns_, state_ns);
  if (records.goodput) {
    records.goodput->begin({records.observers.begin() + 1, records.observers.end()},
                           [this](const std::string& text) { tell(text); });
    parts.intervals = [&records](const SaveCounts& counts) {
      return records.goodput->intervals(counts);
    };
  }
  parts.memory = memory_tier();  // once the job has its number
  TRIREME_TRY(trainer, Trainer::make(std::move(parts),
                                     [this](const TrainPosition& at) { return disk_request(at); }));
  if (is_first() && options_.on_ready) options_.on_ready(plan_, position);
  const int64_t begin_ns = monotonic_ns();
  const std::optional<CpuTimes> cpu_before = load_.read();
  const Result<TrainEnd> end = train_with_rollbacks(trainer, position, records);
  // A check for silent corruption ends all ranks in the same step, and they still report together.
  const std::optional<CorruptionAlarm> alarm = trainer.corruption();
  if (!end.ok() && !alarm) return end.error();
  if (alarm && options_.link != nullptr) options_.link->tell_corrupt(options_.place->epoch, *alarm);
  page.enter(RankPhase::Leave, monotonic_ns());
  const double seconds = double(monotonic_ns() - begin_ns) * 1e-9;
  SessionResult result{end.ok() ? *end : TrainEnd::Stopped, trainer.position(), trainer.last_loss(),
                       trainer.median_step_s()};
  result.predicted_step_s = predictions_.step_s();
  result.saves = trainer.saves();
  take_load(cpu_before, result);
  result.report_folder = folder_.report_folder();
  write_reports(trace, trainer, first_steps ? first_steps->ops() : OpComparison{}, seconds, records,
                result);
  page.reach(CrashPoint::Reported);
  if (!end.ok()) return end.error();
  return result;
}

}  // namespace trireme
