#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "observe/append_file.h"
#include "train/observer.h"

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
  // Adds lines to the file of a run that has ended.
  static Status append_lines(const std::string& path, const std::string& lines);

  void tell_losses_to(std::vector<RunObserver*> listeners) {
    file_.tell_losses_to(std::move(listeners));
  }

  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_sample(const SampleReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  // Adds lines of failures, and the `restart` line behind `step` with `fields`.
  void write_survived(const std::string& failure_lines, int64_t step, const std::string& fields);
  // Records that the run has failed. `cause` is the first failure.
  void write_failure(int64_t step, const std::string& cause);

 private:
  explicit MetricsFile(AppendFile file) : file_(std::move(file)) {}

  AppendFile file_;
};

}  // namespace trireme
