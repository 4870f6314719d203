#pragma once

#include <optional>
#include <span>
#include <vector>

#include "memory/chunk_tables.h"
#include "nn/ctx.h"
#include "nn/frame.h"
#include "spec/norm_sum.h"
#include "spec/run_config.h"

namespace trireme {

// What Step is told, and what it answers.
struct StepInput {
  double lr = 0.0;
  double valid_tokens = 1.0;  // of the global batch; the gradients are raw sums over them
  double squared_norm = 0.0;  // of those sums, over all parameters of the model
  double loss_scale = 1.0;    // that they carry
};
struct StepOutput {
  double grad_norm = 0.0;  // of the mean gradient, before clipping, without loss scale
  bool skipped = false;    // a gradient was not finite: nothing was updated
};

// Where a chunk's tensors lie.
struct OptimizerMemory {
  void* params = nullptr;          // null where they lie in a file
  void* grads = nullptr;           // gradient slot 0
  void* optimizer = nullptr;       // the optimizer's table; null where it lies in a file
  std::vector<void*> staged = {};  // then: [piece] where it lies while it is updated
  void* copies = nullptr;          // of what is updated, for attempt and settle; null: no attempts
};

// Norm, clipping and update of the parameters that a rank owns. Bound once; a step allocates
// nothing.
class Optimizer {
 public:
  explicit Optimizer(const OptimConfig& config, NormSum norm_sum = NormSum::Chunks)
      : config_(config), norm_sum_(norm_sum) {}

  // The parameters of a chunk; their memory outlives the optimizer.
  void add(const ChunkTables& chunk, const OptimizerMemory& memory);

  // Adds the gradient of a tied table's use as head to that of its use as embedding, where both are
  // summed here, and tells what this rank counts of the squared norm, in the words of the model
  // ([num_norm_words], zeroed by the caller).
  void squared_norms(Ctx& ctx, std::span<int64_t> words) const;
  StepOutput update(Ctx& ctx, const StepInput& input);
  // An update from a part of the norm, as if it were all and nothing had to be clipped: copies of
  // what it changes are kept. Nothing where that part already shows that it must be clipped or is
  // not finite.
  void attempt(Ctx& ctx, const StepInput& partial);
  // Whether the attempt is the update that the whole norm asks for: the same on all ranks.
  bool attempt_holds(const StepInput& input) const;
  // The update that the whole norm asks for: the attempt's, or, rolled back, another one.
  StepOutput settle(Ctx& ctx, const StepInput& input);
  int64_t num_rollbacks() const { return num_rollbacks_; }

  // What that update left out: a piece of a chunk's state, which has been fetched.
  void update_piece(Ctx& ctx, int chunk, int piece) const;

  // Updates applied so far: AdamW's bias corrections follow it. Part of a checkpoint.
  int64_t num_updates() const { return num_updates_; }
  void set_num_updates(int64_t count) { num_updates_ = count; }

 private:
  struct Param {
    TensorRef grad_N, second_use_N, master_N, exp_avg_N, exp_avg_sq_N;
    TensorRef param_N;  // absent: the parameter is its own master
    int64_t norm_word = -1;
    bool decay = false;
    double balance_rate = 0.0;  // above 0: not trained
    bool is_in_file = false;
  };

  // A bias moves by its rate towards an even load; its gradient counts every expert's tokens.
  void balance(Ctx& ctx, const Param& param) const;
  // Of an update that is not skipped, else nothing.
  std::optional<double> grad_scale_of(const StepInput& input, StepOutput& output) const;
  void update_all(Ctx& ctx, double lr, double grad_scale);
  void keep_copies(const ChunkTables& chunk, void* copies);
  // From the copies, or to them.
  void copy(Ctx& ctx, bool to_copies) const;

  Param bind(const ChunkTables& chunk, const OwnedParam& owned,
             const OptimizerMemory& memory) const;
  void add_pieces(const ChunkTables& chunk, const OptimizerMemory& memory);
  void update(Ctx& ctx, const Param& param) const;

  OptimConfig config_;
  NormSum norm_sum_;
  std::vector<Param> params_;
  std::vector<std::vector<std::vector<Param>>> pieces_;  // [chunk][piece]
  // Of the update under way.
  double lr_ = 0.0;
  double grad_scale_ = 0.0;
  bool skips_ = false;
  bool is_attempted_ = false;
  int64_t num_rollbacks_ = 0;
  struct Copied {
    TensorRef tensor_N, copy_N;
  };
  std::vector<Copied> copied_;
  int64_t num_updates_ = 0;
};

}  // namespace trireme
