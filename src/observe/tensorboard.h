#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "observe/append_file.h"
#include "observe/proto_writer.h"
#include "train/observer.h"

namespace trireme {

// A TensorBoard event file (docs/formats/tensorboard.md) in the run directory: scalars of every
// step, validation losses, samples as text, histograms. A resumed run appends to the file of the
// run before it.
class TensorBoardFile : public RunObserver {
 public:
  struct Start {
    std::string folder;
    std::string host;
    int64_t step = 0;  // steps done before; TensorBoard drops later events of earlier starts
    std::string configuration;
  };
  static Result<TensorBoardFile> create(const Start& start);

  void tell_losses_to(std::vector<RunObserver*> listeners) {
    file_.tell_losses_to(std::move(listeners));
  }
  Status restore() { return file_.restore(); }

  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_sample(const SampleReport& report) override;
  void on_checkpoint(const CheckpointReport& report) override;
  void on_ranks(int64_t step, std::span<const RankTimes> ranks) override;
  void on_histograms(const HistogramReport& report) override;

 private:
  explicit TensorBoardFile(AppendFile file) : file_(std::move(file)) {}
  void add_scalar(std::string_view tag, double value);
  void add_experts(const StepReport& report);
  void add_text(std::string_view tag, std::string_view text);
  void add_histogram(std::string_view tag, const TensorHistogram& histogram);
  void write_summary(int64_t step);
  void write_event(const ProtoWriter& event);

  AppendFile file_;
  double saved_time_s_ = 0.0;  // of the last checkpoint, Unix seconds; 0: none
  // Members, so that writing the scalars of a step allocates nothing.
  ProtoWriter summary_, value_, event_;
  std::string record_;
};

// Appends a TFRecord: length and data, each with its masked CRC-32C.
void append_tf_record(std::string& file, std::string_view data);

}  // namespace trireme
