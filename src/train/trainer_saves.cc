// When the trainer saves, and how the ranks agree on the intervals between saves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "train/rank_agreement.h"
#include "train/trainer.h"

namespace trireme {

void Trainer::remove_memory_checkpoints() {
  if (memory_saver_ != nullptr) memory_saver_->remove_all();
}

Status Trainer::save_if_wanted() {
  const bool is_last = position_.step == parts_.plan.config.run.steps;
  const bool is_wanted = disk_saves_.is_due(position_.step) ||
                         best_saves_.wants(position_, saver_->last_failed_step());
  if (!is_wanted) return Done{};
  return save_checkpoint(is_last);
}

Status Trainer::save_checkpoint(bool is_last) {
  if (saved_step_ == position_.step) return Done{};
  if (!std::isfinite(last_loss_)) {  // saving would remove a checkpoint that is still good
    tell(fmt::format("step {}: not saved: the loss is not finite", position_.step));
    return Done{};
  }
  best_saves_.note_save(position_, saver_->last_failed_step());
  if (is_last) {
    TRIREME_TRY_DONE(saver_->save(position_));
  } else if (parts_.plan.takes_snapshots) {
    saver_->start(position_);
  } else {
    saver_->try_save(position_);
  }
  saved_step_ = position_.step;
  disk_saves_.note_save(position_.step);
  return Done{};
}

bool Trainer::saves_in_memory_after(int64_t step) const {
  return step < parts_.plan.config.run.steps && memory_saves_.is_due(step);
}

void Trainer::begin_memory_checkpoint() {
  if (memory_saver_ == nullptr || !std::isfinite(last_loss_)) return;
  if (!saves_in_memory_after(position_.step)) return;
  memory_saver_->start(position_);
  memory_saves_.note_save(position_.step);  // also if it was skipped, so that it is counted once
}

void Trainer::tell_memory() {
  if (memory_saver_ == nullptr) return;
  MemoryReport report;
  if (memory_saver_->newest_step() >= 0) {
    report = {memory_saver_->newest_step(), memory_saver_->most_redone(position_.step)};
  }
  if (report == std::exchange(told_memory_, report)) return;
  for (RunObserver* observer : parts_.observers) observer->on_memory_checkpoint(report);
}

double Trainer::saving_s() const {
  return saver_->standing_s() + (memory_saver_ == nullptr ? 0.0 : memory_saver_->stall_s());
}

void Trainer::agree_on_intervals() {
  const RunConfig& config = parts_.plan.config;
  if (position_.step < agree_at_ || config.parallel.staleness > 0) return;
  const auto num_steps = double(std::max<int64_t>(1, num_computed_));
  RankWord own{.stage = parts_.engine.rank_plan().coords.pp,
               .compute_s = compute_s_ / num_steps,
               .exposed_comm_s = exposed_s_ / num_steps,
               .bubble_s = bubble_s_ / num_steps,
               .peak_bytes = parts_.engine.peak_bytes()};
  if (parts_.intervals) own.intervals = parts_.intervals(saves());
  std::vector<RankWord> words;
  for (const std::string& text : saver_->gather(text_of(own))) words.push_back(rank_word_in(text));
  straggler_s_ += straggler_excess_s(words) * double(num_computed_);
  tell_ranks(words);
  compute_s_ = exposed_s_ = bubble_s_ = 0.0;
  num_computed_ = 0;
  const SaveIntervals& agreed = words.front().intervals;
  disk_saves_.set(agreed.disk);
  memory_saves_.set(agreed.memory);
  agree_at_ = position_.step + std::max<int64_t>(1, agreed.agree_after);
}

void Trainer::tell_ranks(const std::vector<RankWord>& words) {
  if (!parts_.plan.config.run.prometheus_ranks || parts_.observers.empty()) return;
  std::vector<RankTimes> reports;
  for (const RankWord& word : words) {
    reports.push_back({.compute_s = word.compute_s,
                       .exposed_comm_s = word.exposed_comm_s,
                       .bubble_s = word.bubble_s,
                       .peak_bytes = word.peak_bytes});
  }
  for (RunObserver* observer : parts_.observers) observer->on_ranks(position_.step, reports);
}

SaveCounts Trainer::saves() const {
  SaveCounts counts = saver_->counts();
  if (memory_saver_ != nullptr) {
    counts.in_memory = memory_saver_->saved();
    counts.memory_stall_s = memory_saver_->stall_s();
    counts.memory_sent_bytes = memory_saver_->sent_bytes();
    counts.memory_skipped = memory_saver_->skipped();
    counts.memory_most_apart = memory_saver_->most_apart();
    counts.memory_most_redone = memory_saver_->most_redone(position_.step);
  }
  return counts;
}

Status Trainer::save_last_checkpoint() {
  TRIREME_TRY_DONE(save_checkpoint(true));
  if (saved_step_ == position_.step) return Done{};
  return Error{
      ErrorKind::Runtime,
      fmt::format("step {}: the run ends without a checkpoint of its last step, because the loss "
                  "is not finite; lower optim.lr, and start again or resume from an "
                  "earlier checkpoint",
                  position_.step)};
}

}  // namespace trireme
