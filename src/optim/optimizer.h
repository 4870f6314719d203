#pragma once

#include <vector>

#include "base/result.h"
#include "nn/ctx.h"
#include "nn/frame.h"
#include "spec/model_spec.h"
#include "spec/run_config.h"
#include "spec/stage_tables.h"

namespace trireme {

enum class OptimizerKind { AdamW, Sgd };
Result<OptimizerKind> optimizer_kind(const OptimConfig& optim);
OptimizerStateSpec optimizer_state_of(const OptimConfig& optim, OptimizerKind kind);

// What Step is told, and what it answers.
struct StepInput {
  double lr = 0.0;
  double valid_tokens = 1.0;  // of the global batch; the gradients are raw sums over them
};
struct StepOutput {
  double grad_norm = 0.0;  // of the mean gradient, before clipping
  bool skipped = false;    // a gradient was not finite: nothing was updated
};

// Norm, clipping and update of a stage's parameters. Bound once; a step allocates nothing.
class Optimizer {
 public:
  // `grads` is gradient slot 0. The frames' memory outlives the optimizer.
  Optimizer(const OptimConfig& config, OptimizerKind kind, const std::vector<ParamSpec>& params,
            const Frame& param_frame, const Frame& grads, const Frame& state, const Frame& step);

  StepOutput step(Ctx& ctx, const StepInput& input);

  // Updates applied so far: AdamW's bias corrections follow it. Part of a checkpoint.
  int64_t num_updates() const { return num_updates_; }
  void set_num_updates(int64_t count) { num_updates_ = count; }

 private:
  struct Param {
    TensorRef grad_N, master_N, exp_avg_N, exp_avg_sq_N;
    TensorRef param_N;  // absent: the parameter is its own master
    TensorRef partials_P;
    bool decay = false;
  };

  double squared_grad_norm(Ctx& ctx);
  void update(Ctx& ctx, const Param& param, double lr, double grad_scale) const;

  OptimConfig config_;
  OptimizerKind kind_;
  std::vector<Param> params_;
  TensorRef head_use_VC_;  // gradient of a tied table's use as head, where it is summed apart
  TensorRef table_VC_;
  int64_t num_updates_ = 0;
};

}  // namespace trireme
