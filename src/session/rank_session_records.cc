#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "device/host.h"
#include "planner/plan_goodput.h"
#include "session/rank_session.h"
#include "session/run_records.h"

namespace trireme {

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

Status RankSession::begin_records(const TrainPosition& position, RunRecords& records) {
  if (!is_first()) return Done{};
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
    const std::string name =
        std::filesystem::absolute(options_.out_dir).lexically_normal().filename().string();
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

}  // namespace trireme
