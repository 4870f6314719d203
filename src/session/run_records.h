#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "observe/host_record.h"
#include "observe/metrics.h"
#include "observe/prometheus.h"
#include "observe/tensorboard.h"
#include "session/goodput_record.h"
#include "session/job_record.h"
#include "session/session.h"

namespace trireme {

// The files that rank 0 writes during the run, and the other observers.
struct RunRecords {
  std::optional<MetricsFile> metrics;
  std::optional<GoodputRecord> goodput;
  std::optional<JobRecord> job;
  std::optional<TensorBoardFile> tensorboard;
  std::unique_ptr<PrometheusMetrics> prometheus;
  std::optional<HostRecord> host;
  std::vector<RunObserver*> observers;
};

// The resolved configuration contains every value, also the vocabulary size that comes from the
// data. So it does not need the file of the preset.
std::string resolved_toml(const RunPlan& plan);

// The fields of the line `run` of metrics.jsonl: parameters, configuration and environment.
std::string run_fields(const SessionOptions& options, const RunPlan& plan);

}  // namespace trireme
