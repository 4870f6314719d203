#pragma once

#include <memory>

#include "models/decoder.h"
#include "planner/run_plan.h"
#include "runtime/executor.h"

namespace trireme {

// Loss of a validation pass.
struct EvalResult {
  double loss_sum = 0.0;
  int64_t valid_tokens = 0;
  double mean() const { return valid_tokens > 0 ? loss_sum / double(valid_tokens) : 0.0; }
};

// One rank, ready to run: threads, planned memory, layers, optimizer and executor. Everything is
// allocated in the constructor; steps allocate nothing. Borrows plan, kernels, source and group.
class Engine {
 public:
  Engine(const RunPlan& plan, const KernelTable& kernels, const TokenSource& source, Group& tp);

  void init_params(uint64_t seed);
  StepResult step(uint64_t first_sample, double lr);
  // Mean loss over the first num_sequences samples of `source`, without dropout.
  EvalResult evaluate(const TokenSource& source, int64_t num_sequences);

  const Frame& params() const { return params_; }
  const Frame& optimizer_state() const { return optimizer_state_; }
  // Gradients of the last step (slot 0), as raw sums over tokens.
  const Frame& grads() const { return grads_; }
  Optimizer& optimizer() { return *optimizer_; }
  const Executor& executor() const { return *executor_; }
  Ctx& ctx() { return ctx_; }
  int64_t peak_bytes() const { return memory_.peak_bytes(); }

 private:
  const RunPlan& plan_;
  ThreadTeam team_;
  RankMemory memory_;
  Stream stream_;
  Ctx ctx_;
  Frame params_, optimizer_state_, grads_;
  std::unique_ptr<TransformerStage> stage_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace trireme
