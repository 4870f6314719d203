#include "train/corruption_checks.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {

CorruptionChecks::CorruptionChecks(Engine& engine, const RunSection& run)
    : engine_(engine), run_(run) {
  if (run.check_state_every > 0) state_.emplace(engine);
  if (run.replay_every > 0) replay_.emplace(engine);
  if (run.replay_elsewhere_every > 0) elsewhere_.emplace(engine, uint64_t(run.seed));
  if (run.check_products_every > 0) products_.emplace(engine, uint64_t(run.seed));
}

bool CorruptionChecks::replays(int64_t step) const {
  return replay_ && step % run_.replay_every == 0;
}

bool CorruptionChecks::replays_elsewhere(int64_t step) const {
  return elsewhere_ && elsewhere_->why_not().empty() && step % run_.replay_elsewhere_every == 0;
}

bool CorruptionChecks::compares(int64_t step) const {
  return state_ && step % run_.check_state_every == 0;
}

bool CorruptionChecks::checks_products(int64_t step) const {
  return products_ && step % run_.check_products_every == 0;
}

bool CorruptionChecks::needs_end_of(int64_t step) const {
  const auto surrounds = [this](int64_t one) {
    return replays(one) || replays_elsewhere(one) || checks_products(one);
  };
  return compares(step) || surrounds(step) || surrounds(step + 1);
}

void CorruptionChecks::begin(int64_t step, uint64_t first_sample) {
  if (replays(step)) replay_->compute(first_sample);
  if (replays_elsewhere(step)) elsewhere_->compute(first_sample);
  if (replays(step) || replays_elsewhere(step)) {
    addends_.clear();
    engine_.hash_addends(&addends_);
  }
  if (checks_products(step)) products_->begin();
}

void CorruptionChecks::end(int64_t step, const StepResult& result) {
  if (checks_products(step)) multiplied_ = products_->end(step);
  engine_.hash_addends(nullptr);
  if (replays(step)) replayed_ = replay_->compare(step, result, addends_);
  if (replays_elsewhere(step)) elsewhere_found_ = elsewhere_->compare(step, result, addends_);
}

Status CorruptionChecks::verdict(int64_t step, bool saves_next) {
  if (!multiplied_.ok()) return multiplied_;
  if (!elsewhere_found_.ok()) return elsewhere_found_;
  if (!replayed_.ok()) return replayed_;
  if (state_ && (compares(step) || saves_next)) return state_->run(step);
  return Done{};
}

std::optional<int64_t> CorruptionChecks::clean_step() const {
  return elsewhere_ ? elsewhere_->last_clean_step() : std::nullopt;
}

void CorruptionChecks::resume_after(std::optional<int64_t> clean_step) {
  if (elsewhere_) elsewhere_->resume_after(clean_step);
}

// The checks follow in the order of verdict(). Products were right in the last step in which they
// were checked, and in every step that is clean by a replay on another rank.
std::optional<CorruptionAlarm> CorruptionChecks::alarm() const {
  if (products_ && products_->alarm()) {
    CorruptionAlarm alarm = *products_->alarm();
    alarm.clean_step = std::max(alarm.clean_step, clean_step());  // an absent one is less
    return alarm;
  }
  if (elsewhere_ && elsewhere_->alarm()) return elsewhere_->alarm();
  if (replay_ && replay_->alarm()) return replay_->alarm();
  return state_ ? state_->alarm() : std::nullopt;
}

std::string CorruptionChecks::why_not() const {
  if (!elsewhere_ || elsewhere_->why_not().empty()) return "";
  return fmt::format("run.replay_elsewhere_every = {}: no step is replayed on other ranks: {}",
                     run_.replay_elsewhere_every, elsewhere_->why_not());
}

CorruptionCounts CorruptionChecks::counts() const {
  CorruptionCounts counts;
  if (state_) {
    counts.state_checks = state_->num_runs();
    counts.state_check_s = state_->seconds();
    counts.compared_bytes = state_->compared_bytes();
    counts.state_bytes = state_->state_bytes();
  }
  if (replay_) {
    counts.replays = replay_->num_runs();
    counts.replay_s = replay_->seconds();
  }
  if (elsewhere_) {
    counts.replays_elsewhere = elsewhere_->num_runs();
    counts.replay_elsewhere_s = elsewhere_->seconds();
  }
  if (products_) {
    counts.products = products_->num_products();
    counts.products_s = products_->seconds();
  }
  return counts;
}

}  // namespace trireme
