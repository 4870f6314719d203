// What each action does.
#include <algorithm>

#include "data/documents.h"
#include "device/turns.h"
#include "runtime/executor.h"

namespace trireme {
namespace {

// The units of an action in a stage of `units`.
struct UnitSpan {
  int begin = 0;
  int end = 0;
};
UnitSpan units_of(const Action& action, int units) {
  if (action.num_units == 0) return {0, units};
  return {action.first_unit, action.first_unit + action.num_units};
}

std::span<int32_t> elements_of(const TensorRef& x) {
  if (!x) return {};
  return {x.as<int32_t>(), size_t(x.num_elements())};
}

}  // namespace

void Executor::run_action(Ctx& ctx, const Action& action, const ActionMemory& memory) {
  switch (action.kind) {
    case ActionKind::F:
      if (action.first_unit == 0) {
        const bool has_read = read(parts_.source, action.chunk, memory.saved_slot,
                                   info_of(action.microbatch).first_sample);
        if (training_ && has_read) announce_behind(action.microbatch);
        if (!counts(action.microbatch)) ignore_targets(stage_of(action), memory.saved_slot);
      }
      run_forward(ctx, action, memory);
      take_losses(action, memory.saved_slot);
      return;
    case ActionKind::B:
    case ActionKind::W:
    case ActionKind::BW:
      return run_backward(ctx, action, memory);
    case ActionKind::SendActivation:
    case ActionKind::RecvActivation:
    case ActionKind::SendGrad:
    case ActionKind::RecvGrad:
      return parts_.pipeline.start(action, memory);
    case ActionKind::SumGrad:
      return join_gradients(ctx, action);
    case ActionKind::JoinDirections:
      parts_.data_parallel.finish_all_reduces(ctx);
      return parts_.data_parallel.join_directions(action);
    case ActionKind::ReduceGrad:
      return parts_.data_parallel.start_reduce(action);
    case ActionKind::JoinTiedTable:
      finish_gradients(ctx);
      return parts_.data_parallel.join_tied_table(ctx, action);
    case ActionKind::Unshard:
      parts_.offload.finish_units(action);
      return parts_.data_parallel.start_unshard(action);
    case ActionKind::Reshard:
      return wait_for_params(action);
    case ActionKind::FetchUnits:
    case ActionKind::FetchPiece:
      return parts_.offload.start_fetch(action);
    case ActionKind::OffloadUnits:
      parts_.data_parallel.finish_unshard(action);
      return parts_.offload.start_offload(action);
    case ActionKind::OffloadPiece:
      return parts_.offload.start_offload(action);
    case ActionKind::Step:
      return run_step_action(ctx);
    case ActionKind::StepPiece:
      parts_.offload.finish_fetch(action);
      return parts_.optimizer.update_piece(ctx, action.chunk, action.microbatch);
    case ActionKind::Validate:
      return run_validate_action(ctx);
    default:
      TRIREME_CHECK(false, "this rank cannot run " + to_string(action, 2));
  }
}

void Executor::ignore_targets(const Stage& stage, int saved_slot) {
  const auto ignore = [](std::span<int32_t> targets) {
    std::fill(targets.begin(), targets.end(), kIgnoredTarget);
  };
  ignore(stage.targets(saved_slot));
  for (int64_t ahead = 1; ahead <= stage.mtp_depth(); ++ahead) {
    ignore(stage.targets_ahead(ahead, saved_slot));
  }
}

bool Executor::counts(int microbatch) const {
  return !counted_ || microbatches_->global_of[size_t(microbatch)] == *counted_;
}

void Executor::wait_for_params(const Action& action) {
  parts_.data_parallel.finish_unshard(action);
  parts_.offload.finish_units(action);
}

void Executor::run_forward(Ctx& ctx, const Action& action, const ActionMemory& memory) {
  const Stage& stage = stage_of(action);
  if (action.first_unit == 0) parts_.pipeline.take_input(action, memory);
  wait_for_params(action);
  const MicrobatchInfo info = info_of(action.microbatch);
  const UnitSpan units = units_of(action, stage.num_units());
  for (int unit = units.begin; unit < units.end; ++unit) {
    const int64_t begin_ns = monotonic_ns();
    stage.forward_unit(ctx, info, memory.saved_slot, unit);
    if (!training_) continue;
    take_routing(action, memory.saved_slot, unit);
    take_logits(action, memory.saved_slot, unit);
    note_unit(ctx, unit, begin_ns);
  }
}

// The times of the units of two actions that run beside each other overlap, so they are not
// recorded.
void Executor::note_unit(const Ctx& ctx, int unit, int64_t begin_ns) {
  if (ctx.turns != nullptr && ctx.turns->are_taken()) return;
  times_.units[times_.num_units++] = {int32_t(action_index_), unit, {begin_ns, monotonic_ns()}};
}

void Executor::run_backward(Ctx& ctx, const Action& action, const ActionMemory& memory) {
  const Stage& stage = stage_of(action);
  const StageSlots slots{memory.saved_slot, std::max(memory.weight_grad_slot, 0), action.grad_slot,
                         action.accumulate ? Write::Accumulate : Write::Overwrite};
  const MicrobatchInfo info = info_of(action.microbatch);
  const UnitSpan units = units_of(action, stage.num_units());
  const Backward half = action.kind == ActionKind::B   ? Backward::Input
                        : action.kind == ActionKind::W ? Backward::Weight
                                                       : Backward::Whole;
  const bool makes_input_grad = half != Backward::Weight;
  if (makes_input_grad && units.end == stage.num_units()) {
    parts_.pipeline.take_output_grad(action, memory);
  }
  wait_for_params(action);
  for (int unit = units.end; unit-- > units.begin;) {
    const int64_t begin_ns = monotonic_ns();
    stage.backward_unit(ctx, info, slots, unit, half);
    note_unit(ctx, unit, begin_ns);
  }
  if (makes_input_grad && units.begin == 0) parts_.pipeline.give_input_grad(action, memory);
}

void Executor::finish_gradients(Ctx& ctx) {
  if (gradients_are_whole_) return;
  gradients_are_whole_ = true;
  parts_.data_parallel.finish_all_reduces(ctx);
  const int64_t begin_ns = monotonic_ns();
  parts_.context_addends.sum();
  addends_waited_ns_ += monotonic_ns() - begin_ns;
}

void Executor::run_step_action(Ctx& ctx) {
  finish_gradients(ctx);
  const int64_t begin_ns = monotonic_ns();
  parts_.tensor_addends.sum();
  addends_waited_ns_ += monotonic_ns() - begin_ns;
  parts_.optimizer.squared_norms(ctx, exchange_.norm_words());
  for (const auto& [owner, function] : before_update_) function();
  const int64_t note = update_note_.own ? update_note_.own() : 0;
  if (!parts_.plan.post_validates) {
    exchange_.run(stop_, note);
    if (update_note_.take) update_note_.take(exchange_.note());
    result_.update = parts_.optimizer.update(ctx, read_exchange(ctx));
    return;
  }
  const double own_part = exchange_.own_squared_norm();
  exchange_.start(stop_, note);
  const int64_t all_tokens =
      parts_.plan.microbatches.num_global * parts_.micro_sequences * parts_.chunks.seq_len;
  parts_.optimizer.attempt(ctx, {.lr = lr_,
                                 .valid_tokens = double(all_tokens),
                                 .squared_norm = own_part,
                                 .num_microbatches = double(parts_.plan.microbatches.num_global),
                                 .loss_scale = ctx.loss_scale,
                                 .measures_only = measures_only_});
}

StepInput Executor::read_exchange(const Ctx& ctx) {
  result_.loss_sum = exchange_.loss_sum();
  result_.valid_tokens = exchange_.valid_tokens();
  result_.stop = exchange_.stop();
  result_.expert_loads = exchange_.expert_loads();
  result_.router_losses = exchange_.router_losses();
  result_.ahead_loss_sum = exchange_.ahead_loss_sum();
  result_.largest_logits = exchange_.largest_logits();
  return {.lr = lr_,
          .valid_tokens = double(std::max<int64_t>(1, result_.valid_tokens)),
          .squared_norm = exchange_.squared_norm(),
          .num_microbatches = double(parts_.plan.microbatches.num_global),
          .loss_scale = ctx.loss_scale,
          .measures_only = measures_only_,
          .largest_logits = exchange_.largest_logits()};
}

void Executor::run_validate_action(Ctx& ctx) {
  exchange_.finish();
  if (update_note_.take) update_note_.take(exchange_.note());
  const StepInput input = read_exchange(ctx);
  attempt_held_ = parts_.optimizer.attempt_holds(input);
  if (!attempt_held_) drop_ahead();  // before anything that has been read changes
  result_.update = parts_.optimizer.settle(ctx, input);
}

MicrobatchInfo Executor::info_of(int microbatch) const {
  if (!training_) return {parts_.micro_sequences, first_sample_, false};
  const uint64_t global = uint64_t(microbatches_->global_of[size_t(microbatch)]);
  return {parts_.micro_sequences, first_sample_ + global * uint64_t(parts_.micro_sequences), true};
}

bool Executor::read(const TokenSource& source, int chunk, int saved_slot, uint64_t first_sample) {
  const Stage& stage = parts_.stages[size_t(chunk)];
  const std::span<int32_t> tokens = stage.tokens(saved_slot);
  const std::span<int32_t> targets = stage.targets(saved_slot);
  const Documents documents = stage.documents(saved_slot);
  if (tokens.empty() && targets.empty() && !documents.first_T) return false;
  const int64_t begin_ns = monotonic_ns();
  read_sequences(source, first_sample, parts_.micro_sequences, whole_tokens_, whole_targets_);
  const auto take = [&](const std::vector<int32_t>& whole, std::span<int32_t> own) {
    if (parts_.chunks.cp == 1) {
      if (!own.empty()) std::copy(whole.begin(), whole.end(), own.begin());
      return;
    }
    for (size_t i = 0; i < own.size(); ++i) {
      own[i] = whole[size_t(parts_.chunks.whole_token(int64_t(i)))];
    }
  };
  take(whole_tokens_, tokens);
  take(whole_targets_, targets);
  if (documents.first_T) {
    place_documents(whole_tokens_, parts_.chunks.seq_len, source.document_end(), whole_first_,
                    whole_position_);
    take(whole_first_, elements_of(documents.first_T));
    take(whole_position_, elements_of(documents.position_T));
    const std::span<int32_t> first_N = elements_of(documents.first_N);
    std::copy_n(whole_first_.begin(), first_N.size(), first_N.begin());
  }
  read_ahead(stage, saved_slot, take);
  read_ns_ += monotonic_ns() - begin_ns;
  return true;
}

// Behind the last micro-batch of a step comes the first one of the next step.
void Executor::announce_behind(int microbatch) const {
  const std::vector<int64_t>& global_of = microbatches_->global_of;
  const size_t next = size_t(microbatch) + 1;
  const int64_t global =
      next < global_of.size() ? global_of[next] : global_of.front() + microbatches_->num_global;
  parts_.source.will_read(first_sample_ + uint64_t(global * parts_.micro_sequences),
                          parts_.micro_sequences);
}

template <typename Take>
void Executor::read_ahead(const Stage& stage, int saved_slot, const Take& take) {
  const int64_t seq_len = parts_.chunks.seq_len;
  const bool has_documents = bool(stage.documents(saved_slot).first_T);
  for (int64_t ahead = 1; ahead <= stage.mtp_depth(); ++ahead) {
    const std::span<int32_t> tokens = stage.tokens_ahead(ahead, saved_slot);
    if (tokens.empty()) return;
    const auto is_behind = [&](size_t i) { return int64_t(i) % seq_len + ahead >= seq_len; };
    for (size_t i = 0; i < whole_ahead_.size(); ++i) {
      whole_ahead_[i] = whole_tokens_[is_behind(i) ? i : i + size_t(ahead)];
    }
    take(whole_ahead_, tokens);
    for (size_t i = 0; i < whole_ahead_.size(); ++i) {
      const size_t there = is_behind(i) ? i : i + size_t(ahead);
      const bool is_target =
          there != i && !(has_documents && whole_first_[there] != whole_first_[i]);
      whole_ahead_[i] = is_target ? whole_targets_[there] : kIgnoredTarget;
    }
    take(whole_ahead_, stage.targets_ahead(ahead, saved_slot));
  }
}

Executor::EvalLoss Executor::losses_of(int chunk, int saved_slot, Leaf leaf) const {
  const Stage& stage = parts_.stages[size_t(chunk)];
  const auto of_leaf = [&](auto all) {
    const size_t count = all.size() / size_t(leaf.count);
    return all.subspan(size_t(leaf.index) * count, count);
  };
  EvalLoss result;
  for (float loss : of_leaf(stage.losses(saved_slot))) result.loss_sum += loss;
  const std::span<int32_t> targets = of_leaf(stage.targets(saved_slot));
  result.valid_tokens = std::count_if(targets.begin(), targets.end(),
                                      [](int32_t target) { return target != kIgnoredTarget; });
  return result;
}

bool Executor::ends_chunk(const Action& action) const {
  const int units = stage_of(action).num_units();
  return units_of(action, units).end == units;
}

void Executor::take_losses(const Action& action, int saved_slot) {
  if (!ends_chunk(action) || stage_of(action).losses(saved_slot).empty()) return;
  if (parts_.plan.coords.tp != 0) return;  // told by one of them
  const int64_t global = microbatches_->global_of[size_t(action.microbatch)];
  const int64_t leaves = parts_.plan.shape.leaves;
  for (int64_t leaf = 0; leaf < leaves; ++leaf) {
    const EvalLoss loss = losses_of(action.chunk, saved_slot, {leaf, leaves});
    exchange_.put_loss((global * leaves + leaf) * parts_.chunks.cp + parts_.chunks.rank,
                       loss.loss_sum, loss.valid_tokens);
  }
  const Stage& stage = stage_of(action);
  if (stage.mtp_depth() == 0) return;
  double ahead_sum = 0.0;
  for (int64_t ahead = 1; ahead <= stage.mtp_depth(); ++ahead) {
    for (const float ahead_loss : stage.losses_ahead(ahead, saved_slot)) ahead_sum += ahead_loss;
  }
  exchange_.put_ahead_loss(global * parts_.chunks.cp + parts_.chunks.rank, ahead_sum);
}

// The blocks of modules count as layers behind the last one.
void Executor::take_routing(const Action& action, int saved_slot, int unit) {
  if (parts_.plan.coords.tp != 0) return;  // told by one of them
  const Stage& stage = stage_of(action);
  const int64_t layer = layer_of_unit(parts_.plan.chunks[size_t(action.chunk)].stage, unit);
  for (int block = 0; block < stage.num_routers(unit); ++block) {
    exchange_.add_expert_load(layer + block, stage.expert_load(saved_slot, unit, block));
    exchange_.add_router_losses(layer + block, stage.router_losses(saved_slot, unit, block));
  }
}

void Executor::take_logits(const Action& action, int saved_slot, int unit) {
  const Stage& stage = stage_of(action);
  const int64_t layer = layer_of_unit(parts_.plan.chunks[size_t(action.chunk)].stage, unit);
  for (int block = 0; block < stage.num_largest_logits(unit); ++block) {
    exchange_.raise_logits(layer + block, stage.first_head(),
                           stage.largest_logits(saved_slot, unit, block));
  }
}

// grad_slot += grad_slot_b, of the action's units where gradients are stored whole.
void Executor::join_gradients(Ctx& ctx, const Action& action) const {
  const ChunkRegions& regions = parts_.plan.memory.chunks[size_t(action.chunk)];
  const ChunkTables& chunk = parts_.plan.chunks[size_t(action.chunk)];
  const int into = regions.grad_slots[size_t(action.grad_slot)];
  const int from = regions.grad_slots[size_t(action.grad_slot_b)];
  const DType grad = chunk.grad_dtype;
  const auto add = [&](int64_t begin, int64_t count) {
    ctx.kernels.add(ctx.stream, {parts_.memory.elements(from, grad, begin, count),
                                 parts_.memory.elements(into, grad, begin, count)});
  };
  if (action.num_units == 0) {
    add(0, chunk.grad_slot_bytes / size_of(grad));
    return;
  }
  for (const PlacedBucket& placed : chunk.buckets) {
    const int unit = placed.bucket.unit;
    if (unit < action.first_unit || unit >= action.first_unit + action.num_units) continue;
    const TableRange grads = placed.bucket.grads();
    if (grads.count > 0) add(grads.begin, grads.count);
  }
}

}  // namespace trireme
