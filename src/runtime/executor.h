#pragma once

#include <span>
#include <vector>

#include "data/token_source.h"
#include "models/transformer_stage.h"
#include "optim/optimizer.h"
#include "program/accumulate.h"
#include "runtime/rank_memory.h"
#include "spec/memory_plan.h"

namespace trireme {

// When one action of a step ran, in nanoseconds of the monotonic clock.
struct ActionTime {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// A part of an action: one unit of the stage (the embedding, a layer, the head).
struct UnitTime {
  int32_t action = 0;  // position in the Program
  int32_t unit = 0;
  ActionTime time;
};

struct StepResult {
  double loss_sum = 0.0;  // over the valid tokens of the step
  int64_t valid_tokens = 0;
  StepOutput update;
};

// Runs a checked Program over one stage. It knows the actions, not the schedule that arranged them.
class Executor {
 public:
  struct Parts {
    const Program& program;
    const MemoryPlan& plan;
    RankMemory& memory;
    const TransformerStage& stage;
    Optimizer& optimizer;
    const TokenSource& source;
    MicrobatchMap map;  // local micro-batch -> global index within the step
    int64_t micro_sequences = 1;
  };
  explicit Executor(Parts parts);

  // One step from the global sample `first_sample` on.
  StepResult run_step(Ctx& ctx, uint64_t first_sample, double lr);

  // Of the last step, one per action of the Program.
  const std::vector<ActionTime>& action_times() const { return times_; }
  // Of the last step: the units of its F and BW.
  std::span<const UnitTime> unit_times() const { return {unit_times_.data(), num_unit_times_}; }

 private:
  void run_action(Ctx& ctx, const Action& action, const ActionMemory& memory, StepResult& result,
                  double lr);
  void run_forward(Ctx& ctx, const MicrobatchInfo& info, int saved_slot);
  void run_backward(Ctx& ctx, const MicrobatchInfo& info, const StageSlots& slots);
  // Keeps the time of a unit from begin_ns to now.
  void record_unit(int unit, int64_t begin_ns);
  void take_losses(int microbatch, int saved_slot);
  MicrobatchInfo info_of(int microbatch) const;
  void join_gradients(Ctx& ctx, const Action& action) const;

  Parts parts_;
  std::vector<TensorRef> grad_slots_;  // each slot as one flat fp32 tensor
  std::vector<double> loss_sums_;      // [global micro-batch]
  std::vector<int64_t> valid_tokens_;
  std::vector<ActionTime> times_;
  std::vector<UnitTime> unit_times_;  // room for every unit of every action
  size_t num_unit_times_ = 0;
  uint64_t first_sample_ = 0;
  size_t action_index_ = 0;  // the action that runs
};

// Sums along the canonical binary tree over the index: the same bits for every layout.
double tree_sum(const std::vector<double>& leaves);

int64_t monotonic_ns();

}  // namespace trireme
