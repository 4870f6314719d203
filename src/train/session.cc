#include "train/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/chrome_trace.h"
#include "base/file.h"
#include "comm/local/sole_rank.h"
#include "device/host.h"
#include "kernels/ceilings.h"
#include "planner/price.h"
#include "spec/run_config_text.h"
#include "train/kernel_choice.h"
#include "train/metrics.h"
#include "train/run_state.h"
#include "train/session_data.h"
#include "train/summary.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// A quick stand-in for the memory bandwidth, which takes too long to measure at every start: the
// ratio of copied bytes to fp32 FLOPs of a desktop or server core. `trireme calibrate` measures it.
constexpr double kAssumedCopyBytesPerFlop = 0.3;

// A folder that a fresh run may use: absent or empty.
Status check_out_dir(const SessionOptions& options) {
  if (options.resume != ResumeMode::Fresh) return Done{};
  std::error_code error;
  if (!fs::exists(options.out_dir, error) || fs::is_empty(options.out_dir, error)) return Done{};
  return Error{ErrorKind::Usage,
               fmt::format("--out {} is not empty: continue that run with --resume auto, or choose "
                           "another folder",
                           options.out_dir)};
}

Result<std::optional<Checkpoint>> find_checkpoint(const SessionOptions& options) {
  std::string path = options.resume_path;
  if (options.resume == ResumeMode::Fresh) return std::optional<Checkpoint>();
  if (options.resume == ResumeMode::Auto) {
    TRIREME_TRY(latest, find_latest_checkpoint(options.out_dir + "/checkpoints"));
    for (const std::string& skipped : latest.skipped) {
      for (RunObserver* observer : options.observers) {
        observer->on_message("skipped a damaged checkpoint: " + skipped);
      }
    }
    if (latest.path.empty()) return std::optional<Checkpoint>();
    path = latest.path;
  }
  TRIREME_TRY(checkpoint, Checkpoint::open(path));
  return std::optional<Checkpoint>(std::move(checkpoint));
}

// Every value stands in the resolved configuration, so it no longer needs the preset's file.
std::string resolved_toml(RunConfig config) {
  config.model.preset.clear();
  return to_toml(config);
}

// Follows the losses for the summary and keeps the times of the traced steps.
class SummaryObserver : public RunObserver {
 public:
  void on_eval(const EvalReport& report) override { eval_ = report; }
  const EvalReport& eval() const { return eval_; }

 private:
  EvalReport eval_;
};

std::string run_fields(const SessionOptions& options, const RunPlan& plan) {
  std::string fields =
      fmt::format("\"params\":{},\"config\":{}", plan.num_params, to_json(plan.config));
  for (const auto& [key, value] : options.environment) {
    fields += fmt::format(",\"{}\":\"{}\"", json_escaped(key), json_escaped(value));
  }
  return fields;
}

Hardware hardware_of(const Ceilings& ceilings) {
  Hardware hardware;
  hardware.name = "this machine";
  hardware.fp32_flops = ceilings.compute.fp32_flops_per_s;
  hardware.bf16_flops = ceilings.compute.bf16_flops_per_s;
  hardware.memory_bytes_per_s = ceilings.copy_bytes_per_s;
  return hardware;
}

// The parts of a session that live as long as it runs.
class Session {
 public:
  Session(const SessionOptions& options, RunPlan plan, SessionData data, KernelChoice choice)
      : options_(options),
        plan_(std::move(plan)),
        data_(std::move(data)),
        choice_(choice),
        engine_(plan_, *choice.kernels, *data_.train, rank_.group()) {}

  Result<SessionResult> run(const std::optional<Checkpoint>& checkpoint);

 private:
  Result<TrainPosition> start(const std::optional<Checkpoint>& checkpoint);
  Status write_plan_files();
  Result<std::string> save(const TrainPosition& position);
  Status write_summary(const Trainer& trainer, const SessionResult& result, double seconds);
  double peak_flops() const;

  const SessionOptions& options_;
  RunPlan plan_;
  SessionData data_;
  KernelChoice choice_;
  SoleRank rank_;
  Engine engine_;
  Ceilings ceilings_;
  RankPrediction prediction_;
  SummaryObserver summary_observer_;
};

double Session::peak_flops() const {
  return plan_.shape.compute == DType::F32 ? ceilings_.compute.fp32_flops_per_s
                                           : ceilings_.compute.bf16_flops_per_s;
}

Result<TrainPosition> Session::start(const std::optional<Checkpoint>& checkpoint) {
  if (!checkpoint) {
    engine_.init_params(plan_.config.run.seed);
    return TrainPosition{};
  }
  TRIREME_TRY(position, restore(*checkpoint, plan_, engine_));
  if (checkpoint->info().data_identity != data_.identity) {
    for (RunObserver* observer : options_.observers) {
      observer->on_message(checkpoint->folder() +
                           " was written with other training data: it continues with these");
    }
  }
  return position;
}

Status Session::write_plan_files() {
  prediction_.time.step = price_step(plan_, hardware_of(ceilings_));
  prediction_.time.compute = prediction_.time.step;
  TRIREME_TRY_DONE(write_file_atomically(options_.out_dir + "/config.resolved.toml",
                                         resolved_toml(plan_.config)));
  return write_file_atomically(options_.out_dir + "/plan.json", plan_json(plan_, prediction_));
}

Result<std::string> Session::save(const TrainPosition& position) {
  std::vector<AttachedFile> attached = {{"config.resolved.toml", resolved_toml(plan_.config)}};
  if (data_.tokenizer != nullptr) attached.push_back({"tokenizer.json", data_.tokenizer_json});
  return save_checkpoint(options_.out_dir + "/checkpoints",
                         checkpoint_info(plan_, position, data_.identity), attached,
                         checkpoint_pieces(plan_, engine_), {.keep = plan_.config.checkpoint.keep});
}

Status Session::write_summary(const Trainer& trainer, const SessionResult& result, double seconds) {
  RunSummary summary;
  summary.steps = result.position.step;
  summary.final_loss = result.final_loss;
  summary.val_loss = summary_observer_.eval().val_loss;
  summary.bits_per_byte = summary_observer_.eval().bits_per_byte;
  summary.step_s = trainer.median_step_s();
  summary.peak_flops = peak_flops();
  summary.skipped_steps = result.position.skipped_steps;
  summary.rss_peak_bytes = rss_peak_bytes();
  summary.seconds = seconds;
  summary.end = result.end == TrainEnd::Finished ? "finished" : "stopped";
  summary.environment = options_.environment;
  summary.environment.emplace_back("kernels", choice_.kernels->name);
  RankMeasurement measured;
  measured.peak_bytes = engine_.peak_bytes();
  measured.time.step = summary.step_s;
  measured.time.compute = summary.step_s;
  return write_file_atomically(options_.out_dir + "/summary.json",
                               summary_json(plan_, prediction_, measured, summary));
}

Result<SessionResult> Session::run(const std::optional<Checkpoint>& checkpoint) {
  TRIREME_TRY(position, start(checkpoint));
  ceilings_.compute = measure_compute_ceilings(engine_.ctx().stream, choice_.isa);
  ceilings_.copy_bytes_per_s = kAssumedCopyBytesPerFlop * ceilings_.compute.fp32_flops_per_s;
  TRIREME_TRY_DONE(write_plan_files());
  const std::string metrics_path = options_.out_dir + "/metrics.jsonl";
  TRIREME_TRY(metrics, checkpoint ? MetricsFile::resume(metrics_path, position.step,
                                                        run_fields(options_, plan_))
                                  : MetricsFile::create(metrics_path, run_fields(options_, plan_)));
  metrics.tell_losses_to(options_.observers);
  std::vector<RunObserver*> observers = {&metrics, &summary_observer_};
  observers.insert(observers.end(), options_.observers.begin(), options_.observers.end());
  StepTrace trace(plan_, position.step + plan_.config.trace.first_step, plan_.config.trace.steps);
  TRIREME_TRY(trainer, Trainer::make({.plan = plan_,
                                      .engine = engine_,
                                      .validation = data_.validation.get(),
                                      .tokenizer = data_.tokenizer.get(),
                                      .bytes_per_token = data_.bytes_per_token,
                                      .peak_flops = peak_flops(),
                                      .stop_signals = options_.stop_signals,
                                      .trace = &trace,
                                      .observers = observers},
                                     [this](const TrainPosition& at) { return save(at); }));
  if (options_.on_ready) options_.on_ready(plan_, position);
  const int64_t begin_ns = monotonic_ns();
  const Result<TrainEnd> end = trainer.run(position);
  if (!end.ok()) {
    metrics.write_failure(trainer.position().step, end.error().message);
    return end.error();
  }
  const SessionResult result{*end, trainer.position(), trainer.last_loss()};
  TRIREME_TRY_DONE(trace.write(options_.out_dir + "/trace.rank0.json"));
  TRIREME_TRY_DONE(write_summary(trainer, result, double(monotonic_ns() - begin_ns) * 1e-9));
  return result;
}

}  // namespace

Result<RunPlan> plan_session(const RunConfig& config, HostFacts host) {
  TRIREME_TRY(vocab_size, data_vocab_size(config));
  host.data_vocab_size = vocab_size;
  return make_plan(config, host);
}

Result<SessionResult> run_session(const SessionOptions& options) {
  TRIREME_TRY_DONE(check_out_dir(options));
  TRIREME_TRY(choice, choose_kernels(options.config.run.isa));
  TRIREME_TRY(plan, plan_session(options.config, options.host));
  TRIREME_TRY(data, open_session_data(options.config, plan.model.vocab_size));
  TRIREME_TRY(checkpoint, find_checkpoint(options));
  std::error_code error;
  fs::create_directories(options.out_dir, error);
  if (error) {
    return Error{ErrorKind::Runtime, fmt::format("--out {}: cannot make the folder: {}",
                                                 options.out_dir, error.message())};
  }
  Session session(options, std::move(plan), std::move(data), choice);
  return session.run(checkpoint);
}

}  // namespace trireme
