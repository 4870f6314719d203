#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "data/token_source.h"
#include "models/grad_addends.h"
#include "models/stage.h"
#include "optim/optimizer.h"
#include "runtime/data_parallel.h"
#include "runtime/offload.h"
#include "runtime/pipeline.h"
#include "runtime/rank_memory.h"
#include "runtime/step_exchange.h"

namespace trireme {

// When one action of a step ran, in nanoseconds of the monotonic clock.
struct ActionTime {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t waited_ns = 0;        // of it for transfers
  int64_t stage_waited_ns = 0;  // of that for a neighbouring stage
  int64_t read_ns = 0;          // of it for the tokens of the micro-batch
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
  bool stop = false;  // some rank was asked to stop
  // [layer][experts + 1] over all ranks: visits of every expert, and those that were dropped. Until
  // the next step; empty without experts.
  std::span<const int64_t> expert_loads;
  // [layer][2] over all ranks: RouterLosses::aux and z. Likewise.
  std::span<const int64_t> router_losses;
  double ahead_loss_sum = 0.0;  // of all modules that look ahead (model.mtp_depth)
  // [layer][head] over all ranks: the largest attention logit. Likewise; empty without qk_clip.
  std::span<const float> largest_logits;
};

// Runs the checked Program of one rank. It knows the actions, not the schedule that arranged them.
class Executor {
 public:
  struct Parts {
    const RankPlan& plan;
    RankMemory& memory;
    const std::vector<Stage>& stages;  // [chunk]
    Optimizer& optimizer;
    const TokenSource& source;
    Group& world;
    Pipeline& pipeline;
    DataParallel& data_parallel;
    Offload& offload;
    GradAddends& tensor_addends;   // over tp
    GradAddends& context_addends;  // over cp
    int64_t micro_sequences = 1;
    int64_t sample_words = 1;  // 32-bit words of a sample (ModelSpec::sample_words)
    ContextChunks chunks;      // of every sequence, that this rank has
  };
  explicit Executor(Parts parts);

  // Runs one step, whose first global sample is `first_sample`. `stop`: this rank was asked to
  // stop. `next_sample` is the first sample of the following step if nothing runs between the two;
  // it must be the same on all ranks. Then the first actions of that step may run before Validate
  // of this one. If another call comes instead, they are dropped.
  StepResult run_step(Ctx& ctx, uint64_t first_sample, double lr, bool stop = false,
                      std::optional<uint64_t> next_sample = std::nullopt);
  // Adds a function that Step calls before it changes a parameter or its state. Until then, other
  // threads may read these during the step. Each `owner` may have one function; an empty function
  // removes it.
  void call_before_update(const void* owner, std::function<void()> function);
  // What a rank adds to a note that all ranks sum up in the exchange of every step, and who takes
  // the sum before the update changes anything. So the ranks agree without a call of their own.
  // With optim.post_validate, the first attempt of the update comes before the sum.
  struct UpdateNote {
    std::function<int64_t()> own;
    std::function<void(int64_t sum)> take;
  };
  // Empty functions: there is none.
  void set_update_note(UpdateNote note) { update_note_ = std::move(note); }
  // Computes the gradient of the step whose first sample is `first_sample`, or only of one global
  // micro-batch of it, and its norm. Updates nothing. Drops actions that have run ahead.
  StepResult measure_gradient(Ctx& ctx, uint64_t first_sample,
                              std::optional<int64_t> counted_microbatch);
  // The same of the whole step, but this rank computes these micro-batches instead of its own. All
  // ranks together must have every one.
  StepResult measure_gradient_of(Ctx& ctx, uint64_t first_sample,
                                 const MicrobatchMap& microbatches);
  // Drops the actions of the next step that have run ahead. Afterwards all state may be read.
  void settle();
  bool is_ahead() const { return ahead_sample_.has_value(); }
  // Number of steps whose first actions have run ahead, and of those whose actions were dropped.
  int64_t num_begun_ahead() const { return num_begun_ahead_; }
  int64_t num_dropped_ahead() const { return num_dropped_ahead_; }

  // Runs the actions after Step that bring updated parameters to all ranks. All ranks call it after
  // they have changed the parameters that they own.
  void gather_params(Ctx& ctx);

  // Evaluates one micro-batch of another source in every lane of the rank, without dropout. Only
  // its first `counted` sequences count. Every rank of the pipeline calls it; only the ranks that
  // hold the head get the result.
  struct EvalLoss {
    double loss_sum = 0.0;
    int64_t valid_tokens = 0;
    int64_t num_hits = 0;  // valid tokens whose target has the largest logit
  };
  struct EvalMicrobatch {
    uint64_t first_sample = 0;
    int64_t counted = 0;
    EvalLoss loss = {};
  };
  void evaluate(Ctx& ctx, const TokenSource& source, std::span<EvalMicrobatch> of_lanes);

  // Times of the last step, one per action of the Program.
  const std::vector<ActionTime>& action_times() const { return times_.actions; }
  // Times of the units in F and BW of the last step.
  std::span<const UnitTime> unit_times() const { return {times_.units.data(), times_.num_units}; }

 private:
  struct Times {
    std::vector<ActionTime> actions;
    std::vector<UnitTime> units;  // room for every unit of every action
    size_t num_units = 0;
  };

  // Runs the action, and with it the next one if they run beside each other. Returns their number.
  size_t run_timed(Ctx& ctx, size_t position);
  void run_beside(Ctx& ctx, size_t position);
  // Runs the first actions of the step that begins with `first_sample`.
  void run_ahead(Ctx& ctx, uint64_t first_sample);
  void drop_ahead();
  void run_action(Ctx& ctx, const Action& action, const ActionMemory& memory);
  // Waits until no transfer uses the memory of the action's units.
  void wait_for_params(const Action& action);
  void run_forward(Ctx& ctx, const Action& action, const ActionMemory& memory);
  void run_backward(Ctx& ctx, const Action& action, const ActionMemory& memory);
  void note_unit(const Ctx& ctx, int unit, int64_t begin_ns);
  // Starts the exchange of losses and norms; the update follows it, or runs ahead of it.
  void run_step_action(Ctx& ctx);
  // Waits for the exchange.
  void run_validate_action(Ctx& ctx);
  // Takes the exchanged sums into result_, and returns the input of the optimizer.
  StepInput read_exchange(const Ctx& ctx);
  // Finishes the sums of gradients over dp, then sums over cp, once in a step. Only the sums over
  // tp come later, so that no other axis changes a bit.
  void finish_gradients(Ctx& ctx);
  // Reads tokens and targets where the chunk has them, and the places of their documents. Returns
  // false if the chunk has none.
  bool read(const TokenSource& source, int chunk, int saved_slot, uint64_t first_sample);
  // Tells the source which samples this rank reads next.
  void announce_behind(int microbatch) const;
  // Fills the tokens and targets of the modules that look ahead from those of the whole sequences.
  // Behind the end of a sequence there is no target, and any token will do, because no loss depends
  // on it. `take(whole, part)` copies this rank's part.
  template <typename Take>
  void read_ahead(const Stage& stage, int saved_slot, const Take& take);
  // Sets all targets of the slot to kIgnoredTarget.
  static void ignore_targets(const Stage& stage, int saved_slot);
  // True if the targets of the micro-batch count.
  bool counts(int microbatch) const;
  void take_losses(const Action& action, int saved_slot);
  void take_routing(const Action& action, int saved_slot, int unit);
  void take_logits(const Action& action, int saved_slot, int unit);
  EvalLoss losses_of(int chunk, int saved_slot, Leaf leaf) const;
  bool ends_chunk(const Action& action) const;  // has its last unit
  MicrobatchInfo info_of(int microbatch) const;
  void join_gradients(Ctx& ctx, const Action& action) const;
  const Stage& stage_of(const Action& action) const { return parts_.stages[size_t(action.chunk)]; }
  int64_t waited_ns() const {
    return parts_.pipeline.waited_ns() + parts_.pipeline.gather_waited_ns() +
           parts_.data_parallel.waited_ns() + parts_.offload.waited_ns() + exchange_.waited_ns() +
           addends_waited_ns_;
  }

  Parts parts_;
  std::vector<std::pair<const void*, std::function<void()>>> before_update_;  // with their owners
  UpdateNote update_note_;
  StepExchange exchange_;
  // Samples and targets of all ranks that share the sequences.
  std::vector<int32_t> whole_tokens_, whole_targets_;
  std::vector<int32_t> whole_first_, whole_position_;  // Documents of these
  std::vector<int32_t> whole_ahead_;                   // tokens, or targets, some positions ahead
  Times times_, ahead_times_;
  std::optional<uint64_t> ahead_sample_;  // of the step whose first actions have run
  std::vector<int> live_ahead_;           // the regions that these leave live
  int64_t num_begun_ahead_ = 0, num_dropped_ahead_ = 0;
  bool attempt_held_ = true;  // the attempt of the last step was right; else no step runs ahead
  // Of the step that runs.
  StepResult result_;
  const MicrobatchMap* microbatches_;
  uint64_t first_sample_ = 0;
  double lr_ = 0.0;
  bool training_ = true;
  std::optional<int64_t> counted_;  // the global micro-batch that alone counts; absent: all
  bool measures_only_ = false;      // nothing is updated
  bool gradients_are_whole_ = false;
  bool stop_ = false;
  size_t action_index_ = 0;
  int64_t addends_waited_ns_ = 0;
  int64_t read_ns_ = 0;
};

}  // namespace trireme
