#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "observe/metrics_server.h"
#include "train/observer.h"
#include "watch/device_statistics.h"
#include "watch/host_counters.h"

namespace trireme {

using PrometheusLabels = std::vector<std::pair<std::string, std::string>>;

// Publishes the newest numbers of a run in the text format of Prometheus (version 0.0.4): in a file
// for node_exporter's textfile collector, and at an HTTP port.
class PrometheusMetrics : public RunObserver {
 public:
  struct Options {
    std::string file;         // "": no file
    std::string host;         // address to listen at
    int port = 0;             // 0: no port
    PrometheusLabels labels;  // of the run, added to every sample
    int64_t total_steps = 0;
  };
  static Result<std::unique_ptr<PrometheusMetrics>> start(const Options& options);
  ~PrometheusMetrics() override;  // writes the last numbers

  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  void on_goodput(const GoodputReport& report) override;
  void on_ranks(int64_t step, std::span<const RankTimes> ranks) override;

  // Sets the state of the host of rank 0 and of its devices.
  void set_host(const HostStatistics& statistics, std::vector<DeviceStatistics> devices);

  std::string text() const;
  // Returns the names of all metrics that text() may contain.
  static std::vector<std::string> names();

 private:
  explicit PrometheusMetrics(const Options& options);
  void set(size_t metric, double value);
  void write_file();
  std::string devices_text(const std::string& labels) const;
  std::string text_of_ranks(const std::string& labels) const;

  Options options_;
  mutable std::mutex mutex_;  // because the server's thread calls text()
  std::vector<double> values_;
  std::vector<bool> known_;
  std::vector<std::pair<std::string, double>> spent_s_;  // by what it was spent for
  std::vector<DeviceStatistics> devices_;
  std::vector<RankTimes> ranks_;  // [rank]; empty without run.prometheus_ranks
  int64_t written_ns_ = 0;
  std::unique_ptr<MetricsServer> server_;
};

// Escapes a label value for the text format: "a\\b\"c\n".
std::string prometheus_escaped(std::string_view value);

}  // namespace trireme
