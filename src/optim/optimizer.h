#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "nn/ctx.h"
#include "nn/frame.h"
#include "spec/chunk_tables.h"
#include "spec/run_config.h"

namespace trireme {

enum class OptimizerKind { AdamW, Sgd };
Result<OptimizerKind> optimizer_kind(const OptimConfig& optim);
OptimizerStateSpec optimizer_state_of(const OptimConfig& optim, OptimizerKind kind);

// What Step is told, and what it answers.
struct StepInput {
  double lr = 0.0;
  double valid_tokens = 1.0;  // of the global batch; the gradients are raw sums over them
  double squared_norm = 0.0;  // of those sums, over all parameters of the model
};
struct StepOutput {
  double grad_norm = 0.0;  // of the mean gradient, before clipping
  bool skipped = false;    // a gradient was not finite: nothing was updated
};

// Where a chunk's tensors lie.
struct OptimizerMemory {
  void* params = nullptr;
  void* grads = nullptr;      // gradient slot 0
  void* optimizer = nullptr;  // the optimizer's table
};

// Norm, clipping and update of the parameters that a rank owns. Bound once; a step allocates
// nothing.
class Optimizer {
 public:
  Optimizer(const OptimConfig& config, OptimizerKind kind) : config_(config), kind_(kind) {}

  // The parameters of a chunk; their memory outlives the optimizer.
  void add(const ChunkTables& chunk, const OptimizerMemory& memory);

  // Adds the gradient of a tied table's use as head to that of its use as embedding, where both are
  // summed here, and writes the squared norms of the chunks that this rank counts to their places
  // among the model's.
  void squared_norms(Ctx& ctx, std::span<double> partials_P) const;
  StepOutput update(Ctx& ctx, const StepInput& input);

  // Updates applied so far: AdamW's bias corrections follow it. Part of a checkpoint.
  int64_t num_updates() const { return num_updates_; }
  void set_num_updates(int64_t count) { num_updates_ = count; }

 private:
  struct Param {
    TensorRef grad_N, second_use_N, master_N, exp_avg_N, exp_avg_sq_N;
    TensorRef param_N;  // absent: the parameter is its own master
    int64_t norm_chunk = -1;
    bool decay = false;
    double balance_rate = 0.0;  // above 0: not trained
  };

  // A bias moves by its rate towards an even load; its gradient counts every expert's tokens.
  void balance(Ctx& ctx, const Param& param) const;
  void update(Ctx& ctx, const Param& param, double lr, double grad_scale) const;

  OptimConfig config_;
  OptimizerKind kind_;
  std::vector<Param> params_;
  int64_t num_updates_ = 0;
};

}  // namespace trireme
