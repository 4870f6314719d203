#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/file.h"
#include "comm/gather_text.h"
#include "device/host.h"
#include "observe/host_clocks.h"
#include "observe/metrics_segments.h"
#include "observe/recorded_failures.h"
#include "observe/recorded_run.h"
#include "observe/report_ranks.h"
#include "observe/summary.h"
#include "observe/write_trace.h"
#include "planner/diagnose_run.h"
#include "schema/run_config_text.h"
#include "session/data_facts.h"
#include "session/learned_hardware.h"
#include "session/rank_session.h"
#include "session/run_records.h"
#include "train/left_out_samples.h"

namespace trireme {
namespace {

std::vector<MeasuredStep> measured_steps(const std::vector<RankMeasurement>& measured) {
  std::vector<MeasuredStep> steps;
  for (const RankMeasurement& rank : measured) steps.push_back({rank.position, rank.time});
  return steps;
}

}  // namespace

// The load of others is known where all ranks are on this host: as threads of this process, or as
// processes, which add up what they have used.
void RankSession::take_load(const std::optional<CpuTimes>& before, SessionResult& result) const {
  const std::optional<CpuTimes> now = load_.read();
  const int num_processes = options_.host.ranks_on_host;  // 0: the ranks are threads of this one
  if (num_processes > 0 && num_processes < plan_.num_ranks()) return;
  double own_s = before && now ? now->own_s - before->own_s : NAN;
  if (num_processes > 0) {
    const std::string text = fmt::format("{}", own_s);
    own_s = 0.0;
    for (const std::string& other : gather_text(world_.group(), text)) own_s += std::stod(other);
  }
  if (!std::isfinite(own_s)) return;
  CpuTimes after = *now;
  after.own_s = before->own_s + own_s;
  result.taken_by_others = share_of_others(*before, after);
  result.share_left = share_left(result.taken_by_others, plan_.num_ranks() * plan_.num_threads,
                                 options_.host.num_cores);
}

// The first rank traces what the job has survived, which only metrics.jsonl remembers.
std::vector<FailureTimeline> RankSession::survived() const {
  if (!is_first() || options_.link == nullptr) return {};
  const Result<std::string> metrics = read_metrics(options_.out_dir + "/metrics.jsonl");
  return metrics.ok() ? failure_timelines(*metrics) : std::vector<FailureTimeline>();
}

void RankSession::warn(const Status& report) const {
  if (!report.ok()) tell("a report could not be written: " + report.error().message);
}

// All ranks measure their part, and the first one writes.
void RankSession::write_reports(const StepTrace& trace, const Trainer& trainer,
                                const OpComparison& ops, double seconds, RunRecords& records,
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

Status RankSession::write_summary(const std::string& folder, const Trainer& trainer,
                                  const SessionResult& result, const Measured& measured,
                                  double seconds) {
  RunSummary summary;
  summary.steps = result.position.step;
  summary.final_loss = result.final_loss;
  summary.val_loss = summary_observer_.eval().val_loss;
  summary.bits_per_byte = summary_observer_.eval().bits_per_byte;
  summary.val_accuracy = summary_observer_.eval().accuracy;
  summary.best = result.position.best_validation;
  summary.epoch = summary_observer_.epoch();
  summary.step_s = trainer.median_step_s();
  summary.hardware = hardware_.name;
  summary.peak_flops = trainer.ceiling().flops_per_s();
  summary.raised_peak = trainer.ceiling().raised();
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
  summary.data = data_facts(plan_.config, plan_.model.vocab_size, options_.open_input);
  add_recorded(summary);
  if (options_.link != nullptr && trainer.corruption()) {
    summary.corruptions.push_back(*trainer.corruption());
  }
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

Status RankSession::write_late_summary(const SessionResult& result) {
  const std::string path = result.report_folder + "/summary.json";
  const Result<std::string> former = read_text_file(path);
  const std::string steps = fmt::format("\"steps\": {},", result.position.step);
  const bool is_written = former.ok() && former->find(steps) != std::string::npos;
  if (result.report_folder.empty() || is_written) return Done{};
  TRIREME_TRY(metrics, read_metrics(options_.out_dir + "/metrics.jsonl"));
  const RecordedRun recorded = recorded_run(metrics);
  RunSummary summary{.steps = result.position.step,
                     .final_loss = recorded.final_loss,
                     .val_loss = recorded.val_loss,
                     .bits_per_byte = recorded.bits_per_byte,
                     .val_accuracy = recorded.val_accuracy,
                     .best = result.position.best_validation,
                     .epoch = recorded.epoch,
                     .step_s = recorded.step_s,
                     .skipped_steps = result.position.skipped_steps};
  summary.left_out_samples = num_left_out(result.position.left_out, result.position.next_sample);
  summary.survived = survived_failures(options_.link->page(), options_.order->num_failures);
  summary.data = data_facts(plan_.config, plan_.model.vocab_size, options_.open_input);
  const RunSection& run = plan_.config.run;
  summary.end = has_settled(run, result.position)  ? "stopped_early"
                : result.end == TrainEnd::Finished ? "finished"
                                                   : "stopped";
  add_recorded(summary);
  summary.environment = options_.environment;
  summary.environment.emplace_back("kernels", choice_.kernels->name);
  summary.is_late = true;
  tell(
      "summary.json is written from metrics.jsonl, because the first rank was lost after the last "
      "step and before it has written it: what only that rank has measured is missing");
  return write_file_atomically(path, summary_json(plan_, predictions_, {}, summary), &progress());
}

// Adds what the failures of all epochs of the job say. metrics.jsonl has those that this run has
// survived; the launcher adds the last one when the ranks have ended.
void RankSession::add_recorded(RunSummary& summary) const {
  const std::string path = options_.out_dir + "/metrics.jsonl";
  const Result<std::string> metrics = read_metrics(path);
  const auto failures = failures_of_metrics(metrics.ok() ? *metrics : "", path);
  if (failures.ok()) {
    for (const RecordedFailure& failure : *failures) {
      if (failure.evidence.corruption) summary.corruptions.push_back(*failure.evidence.corruption);
      if (failure.goes_back_to < 0) continue;
      summary.went_back.push_back({failure.step, failure.goes_back_to, failure.why_back});
    }
  }
}

// Writes the file of this machine for which a prediction would equal the measurement of rank 0.
Status RankSession::write_learned_hardware(const SessionResult& result, const Measured& measured) {
  const RankMeasurement& first = measured.ranks.front();
  Hardware learned = learned_hardware(hardware_, predictions_.at(first.position).time, first.time,
                                      measured.ops, result.share_left);
  learned.name = "this machine, as a run has found it";
  return write_file_atomically(result.report_folder + "/hardware.toml",
                               to_toml(of_all_ranks(learned, plan_, options_.host)), &progress());
}

}  // namespace trireme
