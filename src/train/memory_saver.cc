#include "train/memory_saver.h"

#include <fmt/format.h>

#include <utility>

#include "train/stall.h"

namespace trireme {

MemorySaver::MemorySaver(Engine& engine, CheckpointSaver::MakeRequest request,
                         std::function<void(const std::string&)> tell)
    : engine_(engine),
      ranks_(engine.world().split(0, engine.world().rank(), "memory checkpoint")),
      request_(std::move(request)),
      tell_(std::move(tell)) {
  engine_.call_before_update(this, [this] {
    if (save_ == nullptr) return;
    const Stall stall(stall_ns_);
    save_->wait_for_copy();
  });
}

MemorySaver::~MemorySaver() { engine_.call_before_update(this, {}); }

void MemorySaver::start(const TrainPosition& position) {
  if (has_failed_) return;
  const Stall stall(stall_ns_);
  SaveRequest request = request_(position);
  request.newest = newest_;
  save_ = std::make_unique<RunSave>(engine_, *ranks_, std::move(request), SaveMode::Memory);
  save_->begin();
}

void MemorySaver::finish() {
  if (save_ == nullptr) return;
  const Stall stall(stall_ns_);
  save_->finish();
  const std::unique_ptr<RunSave> save = std::move(save_);
  if (save->result().ok()) {
    newest_ = *save->result();
    ++saved_;
    return;
  }
  has_failed_ = true;
  tell_(
      fmt::format("checkpoints in memory end: {}; a lost rank is restored from an older one or "
                  "from disk",
                  save->result().error().message));
}

}  // namespace trireme
