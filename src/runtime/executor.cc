#include "runtime/executor.h"

#include <algorithm>

#include "base/check.h"
#include "device/turns.h"
#include "watch/progress_page.h"

namespace trireme {

Executor::Executor(Parts parts)
    : parts_(parts),
      exchange_(parts_.plan, parts_.memory, parts_.world),
      whole_tokens_(size_t(parts_.micro_sequences * parts_.sample_words)),
      whole_targets_(size_t(parts_.micro_sequences * parts_.chunks.seq_len)),
      whole_first_(whole_targets_.size()),
      whole_position_(whole_targets_.size()),
      whole_ahead_(whole_targets_.size()),
      microbatches_(&parts_.plan.microbatches) {
  size_t most_units = 0;
  for (const Stage& stage : parts_.stages) {
    most_units = std::max(most_units, size_t(stage.num_units()));
  }
  const size_t num_actions = parts_.plan.program.size();
  times_ = {std::vector<ActionTime>(num_actions), std::vector<UnitTime>(num_actions * most_units)};
  if (parts_.plan.num_ahead > 0) ahead_times_ = times_;
  for (int i = 0; i < parts_.plan.num_ahead; ++i) {
    const ActionMemory& memory = parts_.plan.memory.actions[size_t(i)];
    live_ahead_.insert(live_ahead_.end(), memory.acquire.begin(), memory.acquire.end());
    for (const int region : memory.release) std::erase(live_ahead_, region);
  }
}

void Executor::call_before_update(const void* owner, std::function<void()> function) {
  std::erase_if(before_update_, [&](const auto& entry) { return entry.first == owner; });
  if (function) before_update_.emplace_back(owner, std::move(function));
}

StepResult Executor::run_step(Ctx& ctx, uint64_t first_sample, double lr, bool stop,
                              std::optional<uint64_t> next_sample) {
  const Program& program = parts_.plan.program;
  const bool has_begun = ahead_sample_ == first_sample;
  if (has_begun) {
    std::swap(times_, ahead_times_);
    ahead_sample_.reset();
  } else {
    drop_ahead();
    exchange_.open();
    times_.num_units = 0;
  }
  first_sample_ = first_sample;
  lr_ = lr;
  stop_ = stop;
  training_ = true;
  gradients_are_whole_ = false;
  result_ = {};
  for (size_t i = has_begun ? size_t(parts_.plan.num_ahead) : 0; i < program.size();) {
    const bool may_run_ahead = program[i].kind == ActionKind::Validate && next_sample;
    if (may_run_ahead && parts_.plan.num_ahead > 0 && attempt_held_) run_ahead(ctx, *next_sample);
    i += run_timed(ctx, i);
  }
  if (!ahead_sample_) parts_.data_parallel.finish_all_unshards();
  return result_;
}

StepResult Executor::measure_gradient(Ctx& ctx, uint64_t first_sample,
                                      std::optional<int64_t> counted_microbatch) {
  drop_ahead();
  counted_ = counted_microbatch;
  measures_only_ = true;
  const StepResult result = run_step(ctx, first_sample, 0.0);
  measures_only_ = false;
  counted_.reset();
  return result;
}

StepResult Executor::measure_gradient_of(Ctx& ctx, uint64_t first_sample,
                                         const MicrobatchMap& microbatches) {
  TRIREME_CHECK(microbatches.global_of.size() == parts_.plan.microbatches.global_of.size(),
                "another number of micro-batches");
  drop_ahead();
  microbatches_ = &microbatches;
  const StepResult result = measure_gradient(ctx, first_sample, std::nullopt);
  microbatches_ = &parts_.plan.microbatches;
  return result;
}

// Both have their memory since before the first (memory_walk.cc), so nothing is allocated between.
// BW begins, because it reaches its first exchange with the least work: F then computes its
// attention while this exchange travels, and after the last exchange of F the BW still has the
// attention of a layer to compute. With F first, nothing would stand beside its first exchange and
// the last of BW.
void Executor::run_beside(Ctx& ctx, size_t position) {
  const auto run = [&](size_t i) {
    run_action(ctx, parts_.plan.program[i], parts_.plan.memory.actions[i]);
  };
  ctx.turns->run([&] { run(position + 1); }, [&] { run(position); });
}

size_t Executor::run_timed(Ctx& ctx, size_t position) {
  action_index_ = position;
  parts_.world.page().begin_action(int64_t(position));
  const bool is_pair = parts_.plan.program[position].beside == Beside::Next;
  // A pair gives back what its second action gives back; its time is that of the first.
  const ActionMemory& taken = parts_.plan.memory.actions[position];
  const ActionMemory& memory = parts_.plan.memory.actions[position + (is_pair ? 1 : 0)];
  ActionTime& time = times_.actions[position];
  const int64_t waited_ns = this->waited_ns(), stage_waited_ns = parts_.pipeline.waited_ns();
  const int64_t read_ns = read_ns_;
  time.begin_ns = monotonic_ns();
  parts_.memory.acquire(taken.acquire);
  is_pair ? run_beside(ctx, position) : run_action(ctx, parts_.plan.program[position], memory);
  parts_.pipeline.finish(memory);
  parts_.data_parallel.finish_reduces(ctx, memory.finish_reduces);
  if (memory.finish_offload) parts_.offload.finish();
  parts_.memory.release(memory.release);
  time.end_ns = monotonic_ns();
  time.waited_ns = this->waited_ns() - waited_ns;
  time.stage_waited_ns = parts_.pipeline.waited_ns() - stage_waited_ns;
  time.read_ns = read_ns_ - read_ns;
  if (is_pair) times_.actions[position + 1] = {.begin_ns = time.end_ns, .end_ns = time.end_ns};
  return is_pair ? 2 : 1;
}

void Executor::run_ahead(Ctx& ctx, uint64_t first_sample) {
  ahead_sample_ = first_sample;
  ++num_begun_ahead_;
  exchange_.open();
  std::swap(first_sample_, first_sample);
  std::swap(times_, ahead_times_);
  times_.num_units = 0;
  for (int i = 0; i < parts_.plan.num_ahead; ++i) run_timed(ctx, size_t(i));
  std::swap(times_, ahead_times_);
  std::swap(first_sample_, first_sample);
}

void Executor::drop_ahead() {
  if (!ahead_sample_) return;
  ahead_sample_.reset();
  ++num_dropped_ahead_;
  parts_.pipeline.finish_activations();
  parts_.data_parallel.finish_all_unshards();
  parts_.memory.release(live_ahead_);
}

void Executor::settle() {
  drop_ahead();
  parts_.data_parallel.finish_all_unshards();
}

void Executor::gather_params(Ctx& ctx) {
  const Program& program = parts_.plan.program;
  const auto step = std::find_if(program.begin(), program.end(), [](const Action& action) {
    return action.kind == ActionKind::Step;
  });
  for (auto action = step; action != program.end(); ++action) {
    const bool moves = action->kind == ActionKind::Unshard || action->kind == ActionKind::Reshard ||
                       action->kind == ActionKind::FetchUnits ||
                       action->kind == ActionKind::OffloadUnits;
    if (!moves || action->num_units == 0) continue;
    const ActionMemory& memory = parts_.plan.memory.actions[size_t(action - program.begin())];
    parts_.memory.acquire(memory.acquire);
    if (action->kind == ActionKind::Unshard) {
      parts_.offload.finish_units(*action);
      parts_.data_parallel.start_unshard(*action, DataParallel::Gather::AtFirst);
    } else {
      run_action(ctx, *action, memory);
    }
    parts_.memory.release(memory.release);
  }
  parts_.data_parallel.finish_all_unshards();
}

void Executor::evaluate(Ctx& ctx, const TokenSource& source, std::span<EvalMicrobatch> of_lanes) {
  drop_ahead();
  training_ = false;
  for (size_t i = 0; i < parts_.plan.eval_program.size(); ++i) {
    const Action& action = parts_.plan.eval_program[i];
    const ActionMemory& memory = parts_.plan.memory.eval_actions[i];
    parts_.memory.acquire(memory.acquire);
    if (action.kind == ActionKind::F) {
      EvalMicrobatch& own = of_lanes[size_t(parts_.plan.lanes.lane_of(action.microbatch))];
      first_sample_ = own.first_sample;
      if (action.first_unit == 0) {
        read(source, action.chunk, memory.saved_slot, own.first_sample);
        const std::span<int32_t> targets = stage_of(action).targets(memory.saved_slot);
        if (!targets.empty()) {
          std::fill(targets.begin() + own.counted * parts_.chunks.local_len(), targets.end(),
                    kIgnoredTarget);
        }
      }
      run_forward(ctx, action, memory);
      if (ends_chunk(action) && !stage_of(action).losses(memory.saved_slot).empty()) {
        own.loss = losses_of(action.chunk, memory.saved_slot, {});
        const std::span<const float> hits = stage_of(action).hits(memory.saved_slot);
        own.loss.num_hits = std::count(hits.begin(), hits.end(), 1.0f);
      }
    } else {
      run_action(ctx, action, memory);
    }
    parts_.pipeline.finish(memory);
    parts_.memory.release(memory.release);
  }
}

}  // namespace trireme
