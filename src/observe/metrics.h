#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/corruption_alarm.h"
#include "base/result.h"
#include "observe/append_file.h"
#include "train/observer.h"
#include "watch/device_statistics.h"
#include "watch/host_counters.h"

namespace trireme {

// metrics.jsonl: one JSON object per line, written as it happens. Steps count from 1. Numbers
// round-trip; a number that is not finite is written as null.
class MetricsFile : public RunObserver {
 public:
  // Creates the file. Its first line is the `run` event with `run_fields`, the inside of a JSON
  // object.
  static Result<MetricsFile> create(const std::string& path, const std::string& run_fields);
  // Continues a file after `step`: removes the lines of later steps and adds a `restart` line.
  static Result<MetricsFile> resume(const std::string& path, int64_t step,
                                    const std::string& run_fields);
  // As resume(), for a run that survives a failure: write_survived() adds the `restart` line.
  static Result<MetricsFile> resume_after_failure(const std::string& path, int64_t step,
                                                  const std::string& run_fields);
  // A file that cannot be written yet, see AppendFile::missing().
  static MetricsFile missing(const std::string& path, const std::string& cause) {
    return {path, AppendFile::missing(path, cause)};
  }
  // Writes the file again if its folder was lost, see AppendFile::restore().
  Status restore() { return file_.restore(); }
  // From now on, the file is renamed (observe/metrics_segments.h) and begun anew once it has
  // `bytes` bytes; 0: never. `run_fields` are those of create(), for the first line of the new
  // file.
  void rotate_at(int64_t bytes, std::string run_fields);
  // Adds lines to the file of a run that has ended.
  static Status append_lines(const std::string& path, const std::string& lines);

  void tell_losses_to(std::vector<RunObserver*> listeners) {
    file_.tell_losses_to(std::move(listeners));
  }

  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_sample(const SampleReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  void on_goodput(const GoodputReport& report) override;
  void on_rollback(const RollbackReport& report) override;
  void on_skip(const SkipReport& report) override;
  // Adds lines of failures, and the `restart` line behind `step` with `fields`.
  void write_survived(const std::string& failure_lines, int64_t step, const std::string& fields);
  // Adds a `host` line: the state of the host of rank 0 up to `step`, and of its devices now.
  void write_host(int64_t step, const HostStatistics& statistics,
                  const std::vector<DeviceStatistics>& devices);
  // Records that the run has failed. `cause` is the first failure, and `alarm` what a check for
  // silent corruption has found, if that was the cause.
  void write_failure(int64_t step, const std::string& cause,
                     const std::optional<CorruptionAlarm>& alarm = std::nullopt);

 private:
  MetricsFile(std::string path, AppendFile file) : path_(std::move(path)), file_(std::move(file)) {}
  void rotate_if_full(int64_t step);

  std::string path_;
  AppendFile file_;
  int64_t most_bytes_ = 0;  // 0: the file is never renamed
  std::string run_fields_;
};

}  // namespace trireme
