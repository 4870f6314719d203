#include "runtime/executor.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <numeric>

namespace trireme {
namespace {

double tree_sum(const double* leaves, int64_t count, int64_t width) {
  if (count == 1) return leaves[0];
  const int64_t half = width / 2;
  if (count <= half) return tree_sum(leaves, count, half);
  return tree_sum(leaves, half, half) + tree_sum(leaves + half, count - half, half);
}

}  // namespace

double tree_sum(const std::vector<double>& leaves) {
  if (leaves.empty()) return 0.0;
  return tree_sum(leaves.data(), int64_t(leaves.size()), int64_t(std::bit_ceil(leaves.size())));
}

int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Executor::Executor(Parts parts)
    : parts_(std::move(parts)),
      loss_sums_(parts_.map.num_global),
      valid_tokens_(parts_.map.num_global),
      times_(parts_.program.size()),
      unit_times_(parts_.program.size() * size_t(parts_.stage.num_units())) {
  for (int region : parts_.plan.grad_slots) {
    const int64_t num_elements = parts_.plan.regions[region].bytes / size_of(DType::F32);
    grad_slots_.push_back({parts_.memory.at(region), DType::F32, Shape{num_elements}});
  }
}

StepResult Executor::run_step(Ctx& ctx, uint64_t first_sample, double lr) {
  first_sample_ = first_sample;
  num_unit_times_ = 0;
  StepResult result;
  for (size_t i = 0; i < parts_.program.size(); ++i) {
    action_index_ = i;
    const ActionMemory& memory = parts_.plan.actions[i];
    times_[i].begin_ns = monotonic_ns();
    parts_.memory.acquire(memory.acquire);
    run_action(ctx, parts_.program[i], memory, result, lr);
    parts_.memory.release(memory.release);
    times_[i].end_ns = monotonic_ns();
  }
  return result;
}

void Executor::run_action(Ctx& ctx, const Action& action, const ActionMemory& memory,
                          StepResult& result, double lr) {
  const StageSlots slots{memory.saved_slot, std::max(memory.weight_grad_slot, 0), action.grad_slot,
                         action.accumulate ? Write::Accumulate : Write::Overwrite};
  switch (action.kind) {
    case ActionKind::F: {
      const MicrobatchInfo info = info_of(action.microbatch);
      read_sequences(parts_.source, info.first_sample, info.num_sequences,
                     parts_.stage.tokens(slots.saved), parts_.stage.targets(slots.saved));
      run_forward(ctx, info, slots.saved);
      take_losses(action.microbatch, slots.saved);
      return;
    }
    case ActionKind::B:
      parts_.stage.backward_input(ctx, info_of(action.microbatch), slots);
      return;
    case ActionKind::W:
      parts_.stage.backward_weight(ctx, info_of(action.microbatch), slots);
      return;
    case ActionKind::BW:
      run_backward(ctx, info_of(action.microbatch), slots);
      return;
    case ActionKind::SumGrad:
      join_gradients(ctx, action);
      return;
    case ActionKind::Step:
      result.loss_sum = tree_sum(loss_sums_);
      result.valid_tokens = std::accumulate(valid_tokens_.begin(), valid_tokens_.end(), int64_t{0});
      result.update = parts_.optimizer.step(
          ctx, {lr, static_cast<double>(std::max<int64_t>(1, result.valid_tokens))});
      return;
    default:
      TRIREME_CHECK(false, "this rank cannot run " + to_string(action, 1));
  }
}

void Executor::run_forward(Ctx& ctx, const MicrobatchInfo& info, int saved_slot) {
  for (int unit = 0; unit < parts_.stage.num_units(); ++unit) {
    const int64_t begin_ns = monotonic_ns();
    parts_.stage.forward_unit(ctx, info, saved_slot, unit);
    record_unit(unit, begin_ns);
  }
}

void Executor::run_backward(Ctx& ctx, const MicrobatchInfo& info, const StageSlots& slots) {
  for (int unit = parts_.stage.num_units(); unit-- > 0;) {
    const int64_t begin_ns = monotonic_ns();
    parts_.stage.backward_unit(ctx, info, slots, unit);
    record_unit(unit, begin_ns);
  }
}

void Executor::record_unit(int unit, int64_t begin_ns) {
  unit_times_[num_unit_times_++] = {int32_t(action_index_), unit, {begin_ns, monotonic_ns()}};
}

MicrobatchInfo Executor::info_of(int microbatch) const {
  const uint64_t global = static_cast<uint64_t>(parts_.map.global_of[microbatch]);
  return {parts_.micro_sequences, first_sample_ + global * uint64_t(parts_.micro_sequences), true};
}

void Executor::take_losses(int microbatch, int saved_slot) {
  const int64_t global = parts_.map.global_of[microbatch];
  double sum = 0.0;
  for (float loss : parts_.stage.losses(saved_slot)) sum += loss;
  loss_sums_[global] = sum;
  const std::span<int32_t> targets = parts_.stage.targets(saved_slot);
  valid_tokens_[global] = std::count_if(targets.begin(), targets.end(),
                                        [](int32_t target) { return target != kIgnoredTarget; });
}

void Executor::join_gradients(Ctx& ctx, const Action& action) const {
  ctx.kernels.add(ctx.stream, {grad_slots_[action.grad_slot_b], grad_slots_[action.grad_slot]});
}

}  // namespace trireme
