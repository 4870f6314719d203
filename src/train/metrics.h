#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "train/observer.h"

namespace trireme {

// metrics.jsonl: one JSON object a line, written as it happens. Steps count from 1; numbers
// round-trip; a number that is not finite is null. A line that cannot be written is dropped whole,
// which is said once: a full disk does not end a run before its next checkpoint.
class MetricsFile : public RunObserver {
 public:
  // A new file, whose first line is the `run` event with `run_fields` (the inside of a JSON
  // object).
  static Result<MetricsFile> create(const std::string& path, const std::string& run_fields);
  // Continues a file after `step`: lines of later steps are cut, and a `restart` line is added.
  static Result<MetricsFile> resume(const std::string& path, int64_t step,
                                    const std::string& run_fields);
  MetricsFile(MetricsFile&& other) noexcept;
  MetricsFile& operator=(MetricsFile&&) = delete;
  ~MetricsFile() override;

  // Who is told when lines are lost; also of those lost before this call.
  void tell_losses_to(std::vector<RunObserver*> listeners);

  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_sample(const SampleReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  // The run's end by a failure; `cause` is its first cause.
  void write_failure(int64_t step, const std::string& cause);

 private:
  MetricsFile(std::string path, int fd, int64_t bytes);
  void write_line(std::string_view line);
  void drop_line(int cause);

  std::string path_;
  int fd_;
  int64_t bytes_;     // of whole lines
  std::string loss_;  // what was lost first; "" as long as nothing was
  std::vector<RunObserver*> listeners_;
};

}  // namespace trireme
