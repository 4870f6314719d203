#include <algorithm>
#include <filesystem>

#include "base/absolute_folder.h"
#include "base/file.h"
#include "device/host.h"
#include "planner/plan_goodput.h"
#include "session/rank_session.h"
#include "session/run_records.h"

namespace trireme {

void RankSession::predict() {
  hardware_ = options_.hardware ? share_of(*options_.hardware, plan_, options_.host)
                                : hardware_of(measured_);
  predictions_ = predict_ranks(plan_, hardware_);
  steps_->complete(predictions_);
}

Status RankSession::write_plan_files() {
  TRIREME_TRY_DONE(write_file_atomically(options_.out_dir + "/config.resolved.toml",
                                         resolved_toml(plan_), &progress()));
  return write_file_atomically(options_.out_dir + "/plan.json",
                               plan_json(plan_, predictions_, hardware_), &progress());
}

// Writes the files of the run into a folder that was made again. What cannot be written is told,
// and training continues.
void RankSession::restore_files(RunRecords& records) {
  warn(write_plan_files());
  warn(records.metrics->restore());
  if (records.tensorboard) warn(records.tensorboard->restore());
}

Status RankSession::begin_records(const TrainPosition& position, RunRecords& records) {
  if (!is_first()) return Done{};
  predict();
  if (options_.order) warn(folder_.make_again());
  const Status written = write_plan_files();
  if (!written.ok() && !options_.order) return written.error();
  warn(written);  // a full disk must not end a run that has just survived a failure
  return open_records(position, records);
}

Status RankSession::open_records(const TrainPosition& position, RunRecords& records) {
  const RunSection& run = plan_.config.run;
  const std::string path = options_.out_dir + "/metrics.jsonl";
  const std::string fields = run_fields(options_, plan_);
  const bool is_fresh = resumed_.folder.empty();
  Result<MetricsFile> metrics = options_.order
                                    ? MetricsFile::resume_after_failure(path, position.step, fields)
                                : is_fresh ? MetricsFile::create(path, fields)
                                           : MetricsFile::resume(path, position.step, fields);
  if (!metrics.ok() && !options_.order) return metrics.error();
  records.metrics.emplace(metrics.ok() ? std::move(*metrics)
                                       : MetricsFile::missing(path, metrics.error().message));
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
    Result<TensorBoardFile> events =
        TensorBoardFile::create({.folder = options_.out_dir,
                                 .host = host_name(),
                                 .step = position.step,
                                 .configuration = resolved_toml(plan_)});
    if (!events.ok() && !options_.order) return events.error();
    if (events.ok()) {
      records.tensorboard.emplace(std::move(*events));
      records.tensorboard->tell_losses_to(options_.observers);
      records.observers.push_back(&*records.tensorboard);
    } else {
      warn(events.error());
    }
  }
  if (!run.prometheus_file.empty() || run.prometheus_port != 0) {
    const std::string name =
        std::filesystem::path(absolute_folder(options_.out_dir)).filename().string();
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
  folder_.call_when_found([this, &records] { restore_files(records); });
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

}  // namespace trireme
