#include "train/engine.h"

#include <algorithm>

#include "models/init.h"

namespace trireme {

Engine::Engine(const RunPlan& plan, const KernelTable& kernels, const TokenSource& source,
               Group& tp)
    : plan_(plan),
      team_(plan.num_threads),
      memory_(plan.memory, team_),
      stream_(team_, memory_.workspace()),
      ctx_{stream_, kernels, tp},
      params_(plan.tables.params, memory_.at(plan.memory.params)),
      optimizer_state_(plan.tables.optimizer, memory_.at(plan.memory.optimizer)),
      grads_(plan.tables.grads, memory_.at(plan.memory.grad_slots[0])) {
  stage_ = std::make_unique<TransformerStage>(plan.model, plan.stage, plan.shape, plan.tables,
                                              memory_.stage_memory(), plan.config.run.seed);
  const Frame step(plan.tables.step, memory_.at(plan.memory.step));
  optimizer_ = std::make_unique<Optimizer>(
      plan.config.optim,
      plan.config.optim.name == "sgd" ? OptimizerKind::Sgd : OptimizerKind::AdamW, plan.params,
      params_, grads_, optimizer_state_, step);
  executor_ = std::make_unique<Executor>(
      Executor::Parts{plan.program, plan.memory, memory_, *stage_, *optimizer_, source,
                      plan.microbatches, plan.shape.micro_sequences});
}

void Engine::init_params(uint64_t seed) {
  trireme::init_params(ctx_, plan_.params, params_, optimizer_state_, seed);
}

StepResult Engine::step(uint64_t first_sample, double lr) {
  return executor_->run_step(ctx_, first_sample, lr);
}

EvalResult Engine::evaluate(const TokenSource& source, int64_t num_sequences) {
  const std::vector<int> saved = {plan_.memory.saved_slots[0]};
  const int64_t micro = plan_.shape.micro_sequences;
  const std::span<int32_t> tokens = stage_->tokens(0);
  const std::span<int32_t> targets = stage_->targets(0);
  EvalResult result;
  memory_.acquire(saved);
  for (int64_t first = 0; first < num_sequences; first += micro) {
    read_sequences(source, uint64_t(first), micro, tokens, targets);
    const int64_t counted = std::min(micro, num_sequences - first);
    std::fill(targets.begin() + counted * plan_.model.seq_len, targets.end(), kIgnoredTarget);
    stage_->forward(ctx_, {micro, uint64_t(first), false}, 0);
    for (float loss : stage_->losses(0)) result.loss_sum += loss;
    for (int32_t target : targets) result.valid_tokens += target != kIgnoredTarget;
  }
  memory_.release(saved);
  return result;
}

}  // namespace trireme
