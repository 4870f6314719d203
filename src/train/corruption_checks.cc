#include "train/corruption_checks.h"

namespace trireme {

CorruptionChecks::CorruptionChecks(Engine& engine, const RunSection& run) : run_(run) {
  if (run.check_state_every > 0) state_.emplace(engine);
  if (run.replay_every > 0) replay_.emplace(engine);
  if (run.check_products_every > 0) products_.emplace(engine, uint64_t(run.seed));
}

bool CorruptionChecks::replays(int64_t step) const {
  return replay_ && step % run_.replay_every == 0;
}

bool CorruptionChecks::compares(int64_t step) const {
  return state_ && step % run_.check_state_every == 0;
}

bool CorruptionChecks::checks_products(int64_t step) const {
  return products_ && step % run_.check_products_every == 0;
}

bool CorruptionChecks::needs_end_of(int64_t step) const {
  return compares(step) || replays(step) || replays(step + 1) || checks_products(step) ||
         checks_products(step + 1);
}

void CorruptionChecks::begin(int64_t step, uint64_t first_sample) {
  if (replays(step)) replay_->compute(first_sample);
  if (checks_products(step)) products_->begin();
}

void CorruptionChecks::end(int64_t step, const StepResult& result) {
  if (checks_products(step)) multiplied_ = products_->end(step);
  if (replays(step)) replayed_ = replay_->compare(step, result);
}

Status CorruptionChecks::verdict(int64_t step, bool saves_next) {
  if (!multiplied_.ok()) return multiplied_;
  if (!replayed_.ok()) return replayed_;
  if (state_ && (compares(step) || saves_next)) return state_->run(step);
  return Done{};
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
  if (products_) {
    counts.products = products_->num_products();
    counts.products_s = products_->seconds();
  }
  return counts;
}

}  // namespace trireme
