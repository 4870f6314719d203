#include "train/checkpoint_saver.h"

#include <fmt/format.h>

#include <utility>

#include "base/clock.h"
#include "comm/gather_text.h"
#include "train/stall.h"

namespace trireme {
namespace {

double seconds(int64_t ns) { return double(ns) * 1e-9; }

}  // namespace

CheckpointSaver::CheckpointSaver(Engine& engine, MakeRequest request,
                                 std::vector<RunObserver*> observers)
    : engine_(engine),
      ranks_(engine.world().split(0, engine.world().rank(), "checkpoint")),
      request_(std::move(request)),
      observers_(std::move(observers)) {
  engine_.call_before_update(this, [this] {
    if (save_ == nullptr) return;
    const Stall stall(stall_ns_);
    save_->wait_for_copy();
  });
}

CheckpointSaver::~CheckpointSaver() { engine_.call_before_update(this, {}); }

void CheckpointSaver::tell(const std::string& message) const {
  for (RunObserver* observer : observers_) observer->on_message(message);
}

Status CheckpointSaver::save(const TrainPosition& position) {
  (void)finish();  // a failure was told, and this save takes its place
  const Status saved = save_now(position);
  if (saved.ok()) return saved;
  ++counts_.failed;
  tell(fmt::format("step {} could not be saved, and is saved once more: {}", position.step,
                   saved.error().message));
  for (RunObserver* observer : observers_) observer->on_failed_save();
  return save_now(position);
}

void CheckpointSaver::try_save(const TrainPosition& position) {
  const Status saved = save(position);
  if (!saved.ok()) note_failure(position.step, saved.error());
}

Status CheckpointSaver::save_now(const TrainPosition& position) {
  const int64_t begin_ns = monotonic_ns();
  RunSave save(engine_, *ranks_, request_(position), SaveMode::Wait);
  save.begin();
  save.finish();
  const double waited_s = seconds(monotonic_ns() - begin_ns);
  counts_.waited_s += waited_s;
  return conclude(save, waited_s, std::nullopt);
}

double CheckpointSaver::standing_s() const {
  return counts_.stall_s + counts_.waited_s + (save_ == nullptr ? 0.0 : seconds(stall_ns_));
}

std::vector<std::string> CheckpointSaver::gather(const std::string& text) {
  return gather_text(*ranks_, text);
}

Status CheckpointSaver::conclude(const RunSave& save, double time_s,
                                 std::optional<double> stall_s) {
  if (!save.failure_of_root().empty()) {
    tell(fmt::format("step {} is saved in checkpoint.fallback_folder, because: {}", save.step(),
                     save.failure_of_root()));
  }
  if (!save.result().ok()) return save.result().error();
  last_ = Done{};
  ++counts_.saved;
  for (RunObserver* observer : observers_) {
    observer->on_checkpoint({save.step(), *save.result(), time_s, stall_s});
  }
  return Done{};
}

void CheckpointSaver::start(const TrainPosition& position) {
  const int64_t due_ns = monotonic_ns();
  if (save_ != nullptr) {
    if (counts_.late++ == 0) {
      tell(
          fmt::format("step {}: its checkpoint waits until that of step {} is written, and so "
                      "does training; raise checkpoint.every or use a faster disk (summary.json "
                      "counts such saves as late_saves)",
                      position.step, save_->step()));
    }
    save_->finish();
    end_if_over();
  }
  begin_ns_ = monotonic_ns();
  save_ = std::make_unique<RunSave>(engine_, *ranks_, request_(position), SaveMode::Beside);
  save_->begin();
  stall_ns_ = monotonic_ns() - due_ns;
  end_if_over();
}

void CheckpointSaver::advance() {
  if (save_ == nullptr) return;
  {
    const Stall stall(stall_ns_);
    save_->advance();
  }
  end_if_over();
}

Status CheckpointSaver::finish() {
  if (save_ != nullptr) {
    {
      const Stall stall(stall_ns_);
      save_->finish();
    }
    end_if_over();
  }
  return last_;
}

void CheckpointSaver::end_if_over() {
  if (!save_->is_over()) return;
  const std::unique_ptr<RunSave> save = std::move(save_);
  counts_.stall_s += seconds(stall_ns_);
  const Status saved = conclude(*save, seconds(monotonic_ns() - begin_ns_), seconds(stall_ns_));
  if (saved.ok()) return;
  ++counts_.failed;
  note_failure(save->step(), saved.error());
}

void CheckpointSaver::note_failure(int64_t step, const Error& error) {
  last_ = error;
  last_failed_step_ = step;
  tell(
      fmt::format("step {} has no checkpoint: {}; earlier checkpoints are intact, training "
                  "continues, and the next save tries again",
                  step, error.message));
}

}  // namespace trireme
