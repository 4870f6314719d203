#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "observe/append_file.h"
#include "train/observer.h"

namespace trireme {

// metrics.jsonl: one JSON object a line, written as it happens. Steps count from 1; numbers
// round-trip; a number that is not finite is null.
class MetricsFile : public RunObserver {
 public:
  // A new file, whose first line is the `run` event with `run_fields` (the inside of a JSON
  // object).
  static Result<MetricsFile> create(const std::string& path, const std::string& run_fields);
  // Continues a file after `step`: lines of later steps are cut, and a `restart` line is added.
  static Result<MetricsFile> resume(const std::string& path, int64_t step,
                                    const std::string& run_fields);

  void tell_losses_to(std::vector<RunObserver*> listeners) {
    file_.tell_losses_to(std::move(listeners));
  }

  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_sample(const SampleReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  // The run's end by a failure; `cause` is its first cause.
  void write_failure(int64_t step, const std::string& cause);

 private:
  explicit MetricsFile(AppendFile file) : file_(std::move(file)) {}

  AppendFile file_;
};

}  // namespace trireme
