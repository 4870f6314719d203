#include "session/rank_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "base/chrome_trace.h"
#include "base/file.h"
#include "calibrate/measure_offload.h"
#include "calibrate/measure_run_kernels.h"
#include "checkpoint/best_checkpoint.h"
#include "comm/calibrate_comm.h"
#include "compile/step_price.h"
#include "device/host.h"
#include "kernels/ceilings.h"
#include "observe/host_clocks.h"
#include "observe/host_record.h"
#include "observe/metrics_segments.h"
#include "observe/prometheus.h"
#include "observe/recorded_failures.h"
#include "observe/report_ranks.h"
#include "observe/summary.h"
#include "observe/tensorboard.h"
#include "observe/write_trace.h"
#include "planner/diagnose_run.h"
#include "planner/plan_goodput.h"
#include "planner/plan_warnings.h"
#include "schema/parity_code.h"
#include "schema/run_config_text.h"
#include "schema/sample_ranges.h"
#include "session/data_facts.h"
#include "session/first_steps.h"
#include "session/goodput_record.h"
#include "session/idle_checks.h"
#include "session/job_record.h"
#include "session/learned_hardware.h"
#include "session/rank_hardware.h"
#include "session/resume.h"
#include "session/resumed_config.h"
#include "session/wrong_checkpoints.h"
#include "train/left_out_samples.h"
#include "train/run_state.h"
#include "watch/progress_page.h"

namespace trireme {

namespace fs = std::filesystem;

// The files that rank 0 writes during the run, and the other observers.
struct Records {
  std::optional<MetricsFile> metrics;
  std::optional<GoodputRecord> goodput;
  std::optional<JobRecord> job;
  std::optional<TensorBoardFile> tensorboard;
  std::unique_ptr<PrometheusMetrics> prometheus;
  std::optional<HostRecord> host;
  std::vector<RunObserver*> observers;
};

namespace {

constexpr int kMostRollbacks = 5;  // of one start of the run

// The resolved configuration contains every value, also the vocabulary size that comes from the
// data. So it does not need the file of the preset.
std::string resolved_toml(const RunPlan& plan) {
  RunConfig config = plan.config;
  config.model.preset.clear();
  config.model.vocab_size = plan.model.vocab_size;
  return to_toml(config);
}

std::string run_fields(const SessionOptions& options, const RunPlan& plan) {
  std::string fields =
      fmt::format("\"params\":{},\"config\":{}", plan.num_params, to_json(plan.config));
  for (const auto& [key, value] : options.environment) {
    fields += fmt::format(",\"{}\":\"{}\"", json_escaped(key), json_escaped(value));
  }
  return fields;
}

std::vector<MeasuredStep> measured_steps(const std::vector<RankMeasurement>& measured) {
  std::vector<MeasuredStep> steps;
  for (const RankMeasurement& rank : measured) steps.push_back({rank.position, rank.time});
  return steps;
}

}  // namespace

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

// After a replay on another rank has found a wrong one, the job goes back to the last step in which
// all were right. All ranks call it before they look for checkpoints.
void RankSession::set_wrong_aside() {
  if (!options_.order || options_.order->clean_step < 0) return;
  const int64_t clean_step = options_.order->clean_step;
  int64_t goes_back = 0;
  if (is_first()) {
    const auto wrong = set_wrong_checkpoints_aside(checkpoint_roots(options_), clean_step);
    goes_back = wrong ? 1 : 0;
    if (!wrong) {
      tell(
          fmt::format("no checkpoint on disk is of step {} or earlier, in which all ranks were "
                      "right: the newest one is resumed, and may hold wrong results",
                      clean_step));
    } else if (!wrong->empty()) {
      tell(
          fmt::format("{} may hold wrong results, because all ranks were right only until step "
                      "{}: the run goes back to an earlier one",
                      fmt::join(*wrong, ", "), clean_step));
    }
  }
  world_.group().monitored_barrier();
  world_.group().broadcast({&goes_back, DType::I64, Shape{1}}, 0);
  if (goes_back != 0) remove_wrong_checkpoints(options_.memory_folder, clean_step);
  world_.group().monitored_barrier();
}

Result<TrainPosition> RankSession::load() {
  set_wrong_aside();
  MemoryResume memory(world_, options_, engine_);
  TRIREME_TRY(resumed, agree_on_resume(world_, options_, memory));
  resumed_ = std::move(resumed);
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
  TRIREME_TRY(checkpoint, Checkpoint::open(resumed_.folder));
  TRIREME_TRY(changes, changes_since(checkpoint, plan_));
  TRIREME_TRY(position, restore(checkpoint, plan_, engine_));
  if (plan_.model.has_adapters() && !has_adapters(checkpoint)) {
    tell(resumed_.name +
         " has no adapters (model.lora_rank): they begin with their initial values");
  }
  memory.remove_folder();
  if (!changes.empty() && position.step > 0) {  // a checkpoint of step 0 holds only weights
    tell(fmt::format("resuming from {} with other settings: {}", resumed_.name, changes));
  }
  if (checkpoint.info().data_identity != data_.identity) {
    tell(resumed_.name +
         " was written with other training data: the run continues with the data "
         "of this configuration");
  }
  const RunSection& run = plan_.config.run;
  if (run.stop_after > 0 && position.step >= run.stop_after && position.step < run.steps) {
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

// What the user should know about the plan and the data; once for a job.
void RankSession::tell_notes() const {
  tell_crowding();
  for (const std::string& warning : plan_warnings(plan_)) tell(warning);
  for (const std::string& note : data_.notes) tell(note);
}

void RankSession::tell_scattered() const {
  const std::vector<int>& nodes = world_.node_of();
  const bool is_one_node = std::count(nodes.begin(), nodes.end(), nodes[0]) == world_.size();
  if (is_one_node || measured_.calls.ranks_per_node == ranks_on_host(plan_, options_.host)) return;
  tell(
      "the ranks of a host do not follow each other, or hosts have different numbers of ranks; "
      "times and bytes are predicted for other hosts than these: start the ranks host by host, "
      "as many on each (mpirun --map-by slot)");
}

// All ranks decide alike: only rank 0 keeps anything, once all have taken part in its measurement.
bool RankSession::take_measured() {
  if (!options_.order) return false;
  const JobPage& page = options_.link->page();
  MeasuredMachine kept;
  if (page.measured_bytes != int(sizeof kept)) return false;
  std::memcpy(&kept, page.measured.data(), sizeof kept);
  if (kept.num_ranks != plan_.num_ranks()) return false;
  measured_ = kept;
  return true;
}

void RankSession::keep_measured() const {
  if (options_.link == nullptr || !is_first()) return;
  JobPage& page = options_.link->page();
  std::memcpy(page.measured.data(), &measured_, sizeof measured_);
  page.measured_bytes = int(sizeof measured_);
}

// Ranks with cores of their own measure their kernels at the same time, because they share the
// memory. Of ranks that share cores only rank 0 measures, while the others wait, and its rates are
// shared out. Hosts are taken to be alike. All ranks measure the links together.
void RankSession::measure_machine() {
  if (take_measured()) return;
  Group& world = world_.group();
  const double on_host = ranks_on_host(plan_, options_.host);
  const double threads = on_host * plan_.num_threads, cores = options_.host.num_cores;
  const bool is_crowded = threads > cores;
  if (!is_crowded || is_first()) {
    Stream& stream = engine_.ctx().stream;
    const auto together = [&] {
      if (!is_crowded) world.barrier();
    };
    together();
    measured_.peaks = measure_compute_ceilings(stream, choice_.isa);
    measured_.kernels = measure_run_kernels(*choice_.kernels, stream, kernel_sizes(plan_),
                                            measured_.peaks, together);
  }
  if (is_crowded) {
    world.barrier();
  } else {
    take_mean_of_ranks();
  }
  const double share = std::min(1.0, std::max(cores, double(plan_.num_threads)) / threads);
  measured_.peaks.fp32_flops_per_s *= share * plan_.num_ranks();
  measured_.peaks.bf16_flops_per_s *= share * plan_.num_ranks();
  measured_.kernels.memory_bytes_per_s *= share;
  measured_.kernels.matmul_bytes_per_s *= share;
  if (is_first() && plan_.config.memory.offload != OffloadChoice::None) {
    measured_.offload = measure_offload(offload_folder(), offload_bytes(plan_), *choice_.kernels,
                                        engine_.ctx().stream);
  }
  world.barrier();
  measured_.num_ranks = plan_.num_ranks();
  measured_.shares_cores = on_host > 1.0 && threads >= cores;
  measured_.calls = measure_calls(world_);
  keep_measured();
  tell_scattered();
}

void RankSession::take_mean_of_ranks() {
  RunKernels& kernels = measured_.kernels;
  double* const numbers[] = {&measured_.peaks.fp32_flops_per_s,
                             &measured_.peaks.bf16_flops_per_s,
                             &kernels.matmul_share,
                             &kernels.matmul_bytes_per_s,
                             &kernels.attention_share,
                             &kernels.vector_share,
                             &kernels.memory_bytes_per_s,
                             &kernels.launch_s};
  std::array<float, std::size(numbers)> means;
  std::transform(std::begin(numbers), std::end(numbers), means.begin(),
                 [](const double* number) { return float(*number); });
  world_.group().all_reduce({means.data(), DType::F32, Shape{int64_t(means.size())}},
                            ReduceOp::Mean);
  for (size_t i = 0; i < means.size(); ++i) *numbers[i] = double(means[i]);
}

Status RankSession::write_plan_files() {
  hardware_ = options_.hardware ? share_of(*options_.hardware, plan_, options_.host)
                                : hardware_of(measured_);
  predictions_ = predict_ranks(plan_, hardware_);
  steps_->complete(predictions_);
  TRIREME_TRY_DONE(write_file_atomically(options_.out_dir + "/config.resolved.toml",
                                         resolved_toml(plan_), &progress()));
  return write_file_atomically(options_.out_dir + "/plan.json",
                               plan_json(plan_, predictions_, hardware_), &progress());
}

MemoryTier RankSession::memory_tier() const {
  const RunConfig& config = plan_.config;
  MemoryTier tier{.place = {host_name(), options_.memory_folder},
                  .epoch = options_.place ? options_.place->epoch : 1,
                  .parity = parse_parity(config.checkpoint.parity).value(),
                  .timeout_s = config.run.comm_timeout_s};
  if (options_.link != nullptr) tier.job = uint64_t(options_.link->page().job.load());
  return tier;
}

SaveRequest RankSession::save_request(const TrainPosition& position) {
  const bool is_keeper = is_first() || !options_.memory_folder.empty();
  if (attached_.empty() && is_keeper) {
    attached_.push_back({"config.resolved.toml", resolved_toml(plan_)});
    if (data_.tokenizer != nullptr) attached_.push_back({"tokenizer.json", data_.tokenizer_json});
  }
  const std::string& fallback = plan_.config.checkpoint.fallback_folder;
  SaveRequest request{checkpoint_info(plan_, position, data_.identity), attached_,
                      folder_.checkpoint_root(), fallback.empty() ? "" : fallback + "/checkpoints"};
  if (right_.is_limited()) {
    request.publish = [right = right_](const auto& publish) { return right.publish(publish); };
  }
  return request;
}

void RankSession::warn(const Status& report) const {
  if (!report.ok()) tell("a report could not be written: " + report.error().message);
}

Status RankSession::write_summary(const std::string& folder, const Trainer& trainer,
                                  const SessionResult& result, const Measured& measured,
                                  double seconds) {
  RunSummary summary;
  summary.steps = result.position.step;
  summary.final_loss = result.final_loss;
  summary.val_loss = summary_observer_.eval().val_loss;
  summary.bits_per_byte = summary_observer_.eval().bits_per_byte;
  summary.best = result.position.best_validation;
  summary.epoch = summary_observer_.epoch();
  summary.step_s = trainer.median_step_s();
  summary.hardware = hardware_.name;
  summary.peak_flops = trainer.peak_flops();
  summary.taken_by_others = result.taken_by_others;
  summary.share_left = result.share_left;
  summary.skipped_steps = result.position.skipped_steps;
  summary.left_out_samples = num_left_out(result.position.left_out, result.position.next_sample);
  summary.saves = trainer.saves();
  summary.corruption_checks = trainer.corruption_checks();
  summary.noise_scale = trainer.noise_scale_tokens().value_or(0.0);
  summary.rss_peak_bytes = rss_peak_bytes();
  summary.seconds = seconds;
  if (options_.link != nullptr) {
    const int num_failures = options_.order ? options_.order->num_failures : 0;
    summary.survived = survived_failures(options_.link->page(), num_failures);
  }
  summary.goodput = measured.goodput;
  summary.data = data_facts(plan_.config, plan_.model.vocab_size);
  summary.corruptions = corruptions(trainer);
  summary.end = trainer.corruption()               ? "corrupt"
                : result.end == TrainEnd::Finished ? "finished"
                : result.end == TrainEnd::Settled  ? "stopped_early"
                                                   : "stopped";
  summary.findings = diagnose_run(plan_, options_.host, hardware_, measured_steps(measured.ranks));
  summary.ops = measured.ops;
  summary.environment = options_.environment;
  summary.environment.emplace_back("kernels", choice_.kernels->name);
  return write_file_atomically(folder + "/summary.json",
                               summary_json(plan_, predictions_, measured.ranks, summary),
                               &progress());
}

// What checks for silent corruption have found in all epochs of the job. metrics.jsonl has what
// this run has survived; the launcher adds the last failure when the ranks have ended.
std::vector<CorruptionAlarm> RankSession::corruptions(const Trainer& trainer) const {
  std::vector<CorruptionAlarm> found;
  const std::string path = options_.out_dir + "/metrics.jsonl";
  const Result<std::string> metrics = read_metrics(path);
  const auto failures = failures_of_metrics(metrics.ok() ? *metrics : "", path);
  if (failures.ok()) {
    for (const RecordedFailure& failure : *failures) {
      if (failure.evidence.corruption) found.push_back(*failure.evidence.corruption);
    }
  }
  if (options_.link != nullptr && trainer.corruption()) found.push_back(*trainer.corruption());
  return found;
}

// What a file of this machine would say whose prediction is the measurement of rank 0.
Status RankSession::write_learned_hardware(const SessionResult& result, const Measured& measured) {
  const RankMeasurement& first = measured.ranks.front();
  Hardware learned = learned_hardware(hardware_, predictions_.at(first.position).time, first.time,
                                      measured.ops, result.share_left);
  learned.name = "this machine, as a run has found it";
  return write_file_atomically(result.report_folder + "/hardware.toml",
                               to_toml(of_all_ranks(learned, plan_)), &progress());
}

// Writes the first cause of a failure to the metrics before the rank ends.
Result<TrainEnd> RankSession::train(Trainer& trainer, const TrainPosition& position,
                                    MetricsFile* metrics) {
  const auto note = [&](const std::string& cause) {
    // Whoever has started this rank knows more about it.
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
                                                   Records& records) {
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

Result<TrainPosition> RankSession::roll_back(const Trainer& trainer, Records& records) {
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
  TRIREME_TRY(metrics,
              MetricsFile::resume_after_failure(options_.out_dir + "/metrics.jsonl", position.step,
                                                run_fields(options_, plan_)));
  records.metrics.emplace(std::move(metrics));
  records.metrics->rotate_at(plan_.config.run.metrics_bytes, run_fields(options_, plan_));
  records.metrics->tell_losses_to(options_.observers);
  for (RunObserver* observer : records.observers) observer->on_rollback(report);
  return position;
}

Status RankSession::open_records(const TrainPosition& position, Records& records) {
  const RunSection& run = plan_.config.run;
  const std::string path = options_.out_dir + "/metrics.jsonl";
  const std::string fields = run_fields(options_, plan_);
  const bool is_fresh = resumed_.folder.empty();
  TRIREME_TRY(metrics, options_.order
                           ? MetricsFile::resume_after_failure(path, position.step, fields)
                       : is_fresh ? MetricsFile::create(path, fields)
                                  : MetricsFile::resume(path, position.step, fields));
  records.metrics.emplace(std::move(metrics));
  records.metrics->rotate_at(run.metrics_bytes, fields);
  records.metrics->tell_losses_to(options_.observers);
  const std::vector<int>& nodes = world_.node_of();
  records.goodput.emplace(
      GoodputFacts{.page = options_.link == nullptr ? nullptr : &options_.link->page(),
                   .hosts = 1 + *std::max_element(nodes.begin(), nodes.end()),
                   .copy_s = planned_saves(plan_, hardware_).copy_s,
                   .config = &plan_.config});
  records.observers.push_back(&*records.goodput);
  if (options_.link != nullptr) {
    records.job.emplace(options_, *records.metrics, fields);
    records.observers.push_back(&*records.job);
  }
  records.observers.insert(records.observers.end(), {&*records.metrics, &summary_observer_});
  if (run.tensorboard) {
    TRIREME_TRY(events, TensorBoardFile::create({.folder = options_.out_dir,
                                                 .host = host_name(),
                                                 .step = position.step,
                                                 .configuration = resolved_toml(plan_)}));
    records.tensorboard.emplace(std::move(events));
    records.tensorboard->tell_losses_to(options_.observers);
    records.observers.push_back(&*records.tensorboard);
  }
  if (!run.prometheus_file.empty() || run.prometheus_port != 0) {
    const std::string name = fs::absolute(options_.out_dir).lexically_normal().filename().string();
    TRIREME_TRY(prometheus, PrometheusMetrics::start({.file = run.prometheus_file,
                                                      .host = run.prometheus_host,
                                                      .port = run.prometheus_port,
                                                      .labels = {{"run", name}},
                                                      .total_steps = run.steps}));
    records.prometheus = std::move(prometheus);
    records.observers.push_back(records.prometheus.get());
  }
  records.host.emplace(*records.metrics, records.prometheus.get());
  records.observers.push_back(&*records.host);
  folder_.tell_loss_to(options_.observers);
  records.observers.push_back(&folder_);
  const CheckpointConfig& checkpoint = plan_.config.checkpoint;
  retention_ = std::make_unique<RetentionThread>(
      RetentionOptions{.keep = checkpoint.keep,
                       .keep_every = checkpoint.keep_every,
                       .keeps_best = checkpoint.best == BestChoice::ValLoss},
      options_.observers);
  records.observers.push_back(retention_.get());
  records.observers.insert(records.observers.end(), options_.observers.begin(),
                           options_.observers.end());
  return Done{};
}

// A job script may resume until the run is done. Then the run has nothing left to train, and no
// file is written again.
Result<SessionResult> RankSession::leave_as_it_is(const TrainPosition& position) {
  const std::string message =
      has_settled(plan_.config.run, position)
          ? fmt::format(
                "{} is of step {}, after which {} validations were not better than that of step "
                "{}: the run has ended by run.stop_patience; raise it to train longer",
                resumed_.name, position.step, position.validations_since_best,
                position.best_validation.step)
          : fmt::format(
                "{} is of step {} and run.steps = {}: nothing is left to train; raise run.steps "
                "to train longer",
                resumed_.name, position.step, plan_.config.run.steps);
  if (options_.resume == ResumeMode::Path) return Error{ErrorKind::Usage, message};
  tell(message);
  steps_->begin(position);
  steps_->finish();
  return SessionResult{
      .end = TrainEnd::Finished, .position = position, .report_folder = folder_.report_folder()};
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

// The load of others is known where all ranks are threads of this process.
void RankSession::take_load(const std::optional<CpuTimes>& before, SessionResult& result) const {
  const std::optional<CpuTimes> now = load_.read();
  const bool is_one_process = options_.host.ranks_on_host == 0;
  if (!before || !now || !is_one_process) return;
  result.taken_by_others = share_of_others(*before, *now);
  result.share_left = share_left(result.taken_by_others, plan_.num_ranks() * plan_.num_threads,
                                 options_.host.num_cores);
}

// The first rank traces what the job has survived, which only metrics.jsonl remembers.
std::vector<FailureTimeline> RankSession::survived() const {
  if (!is_first() || options_.link == nullptr) return {};
  const Result<std::string> metrics = read_metrics(options_.out_dir + "/metrics.jsonl");
  return metrics.ok() ? failure_timelines(*metrics) : std::vector<FailureTimeline>();
}

bool RankSession::is_epoch_wanted() const {
  return options_.link != nullptr && options_.link->page().wanted_epoch > options_.place->epoch;
}

Status RankSession::begin_records(const TrainPosition& position, Records& records) {
  if (!is_first()) return Done{};
  const Status written = write_plan_files();
  if (!written.ok() && !options_.order) return written.error();
  warn(written);  // a full disk must not end a run that has just survived a failure
  return open_records(position, records);
}

TrainerParts RankSession::trainer_parts(StepTrace& trace, const Records& records) {
  TrainerParts parts{.plan = plan_,
                     .engine = engine_,
                     .validation = data_.validation.get(),
                     .tokenizer = data_.tokenizer.get(),
                     .bytes_per_token = data_.bytes_per_token,
                     .train = data_.train.get(),
                     .kept_best = find_kept_best(),
                     .peak_flops = peak_flops(),
                     .stop_signals = options_.stop_signals,
                     .must_stop = [this] { return folder_.must_stop() || is_epoch_wanted(); },
                     .before_step = [this] { right_.await(); },
                     .trace = &trace,
                     .observers = records.observers};
  if (wants_memory_checkpoints(plan_.config) && options_.link != nullptr) {
    parts.memory_request = [this](const TrainPosition& at) {
      SaveRequest request = save_request(at);
      request.root = options_.memory_folder;
      request.fallback_root.clear();
      return request;
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

// All ranks measure their part, and the first one writes.
void RankSession::write_reports(const StepTrace& trace, const Trainer& trainer,
                                const OpComparison& ops, double seconds, Records& records,
                                const SessionResult& result) {
  const bool has_reports = !result.report_folder.empty();
  const std::vector<FailureTimeline> failures = survived();
  const int64_t origin_ns = earliest_ns(engine_, trace_begin_ns(trace, failures));
  if (has_reports) {
    warn(write_trace(trace, failures, origin_ns,
                     fmt::format("{}/trace.rank{}.json", result.report_folder, world_.rank())));
  }
  const std::vector<RankMeasurement> measured = steps_->finish();
  // Workers are alike, so as many are shown as this world has ranks.
  const std::vector<RankMeasurement> shown(measured.begin(), measured.begin() + world_.size());
  const std::string ranks =
      gather_ranks_json({plan_, hardware_, predictions_, shown}, engine_, trace);
  if (!is_first() || !has_reports) return;
  warn(write_file_atomically(result.report_folder + "/ranks.json", ranks, &progress()));
  const GoodputReport goodput = records.goodput->report(trainer.saving_s());
  for (RunObserver* observer : records.observers) observer->on_goodput(goodput);
  warn(write_summary(result.report_folder, trainer, result, {measured, ops, goodput}, seconds));
  warn(write_learned_hardware(result, {measured, ops, goodput}));
}

Result<SessionResult> RankSession::run() {
  ProgressPage& page = world_.group().page();
  page.set_stage(engine_.rank_plan().coords.pp);
  page.enter(RankPhase::Load, steady_now_ns());
  TRIREME_TRY(position, start());
  const int64_t state_ns = steady_now_ns();
  page.enter(RankPhase::WarmUp, state_ns);
  const RunSection& run = plan_.config.run;
  if (position.step >= run.steps || has_settled(run, position)) return leave_as_it_is(position);
  if (!options_.order) {
    tell_notes();
    for (const std::string& note : idle_checks(plan_.config, position.step)) tell(note);
  }
  measure_machine();
  Records records;
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
                                     [this](const TrainPosition& at) { return save_request(at); }));
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
  take_load(cpu_before, result);
  result.report_folder = folder_.report_folder();
  write_reports(trace, trainer, first_steps ? first_steps->ops() : OpComparison{}, seconds, records,
                result);
  if (!end.ok()) return end.error();
  return result;
}

}  // namespace trireme
