#include "models/stage.h"

#include "base/clock.h"
#include "device/turns.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

// A clock that also stands still while the rank computes another action.
int64_t working_ns(const Ctx& ctx) {
  const bool may_be_away = ctx.turns != nullptr && ctx.turns->are_taken();
  return running_ns(ctx) - (may_be_away ? ctx.turns->away_ns() : 0);
}

}  // namespace

int64_t running_ns(const Ctx& ctx) {
  return monotonic_ns() - ctx.tp.waited_ns() - ctx.cp.waited_ns() - ctx.ep.waited_ns() -
         ctx.batch.waited_ns();
}

SlotMemory Stage::memory_of(const StageSlots& slots, int unit) const {
  SlotMemory m;
  const auto put = [&](Base base, void* place) {
    m.bases[size_t(base)] = static_cast<char*>(place);
  };
  const auto one_of = [](const std::vector<void*>& places, int slot) {
    return places.empty() ? nullptr : places[size_t(slot)];
  };
  put(Base::Saved, one_of(memory_.saved_slots, slots.saved));
  put(Base::WeightGrad, one_of(memory_.weight_grad_slots, slots.weight_grad));
  put(Base::Scratch, memory_.scratch);
  if (!memory_.grad_slots.empty()) {
    const std::vector<void*>& grads = memory_.grad_slots[size_t(slots.grad)];
    put(Base::Grads, grads[size_t(unit)]);
    put(Base::TiedGrads, grads.front());
  }
  return m;
}

void Stage::run(Ctx& ctx, const MicrobatchInfo& info, const Unit& unit, const Call& call,
                const SlotMemory& m, Write write) {
  const OpBody& op = *unit.ops[size_t(call.op)];
  switch (call.half) {
    case OpHalf::Forward:
      op.forward(ctx, info, m);
      break;
    case OpHalf::InputGrad:
      op.backward_input(ctx, info, m);
      break;
    case OpHalf::WeightGrad:
      unit.leaf_sums[size_t(call.op)](ctx, m, [&](const SlotMemory& of_leaf) {
        op.backward_weight(ctx, info, of_leaf, write);
      });
      break;
  }
}

void Stage::run(Ctx& ctx, const MicrobatchInfo& microbatch, const Unit& unit,
                const std::vector<Call>& calls, const SlotMemory& m, Write write) const {
  MicrobatchInfo info = microbatch;
  info.documents = documents_of(m);
  const bool is_timed = clock_ != nullptr && info.training;
  for (const Call& call : calls) {
    const int64_t begin_ns = is_timed ? working_ns(ctx) : 0;
    run(ctx, info, unit, call, m, write);
    if (!is_timed) continue;
    clock_->op_ns[unit.first_op + size_t(call.op)][size_t(call.half)] += working_ns(ctx) - begin_ns;
  }
}

void Stage::forward_unit(Ctx& ctx, const MicrobatchInfo& info, int saved_slot, int unit) const {
  const Unit& u = units_[size_t(unit)];
  const std::vector<Call>& calls = info.training ? u.forward : u.evaluation;
  run(ctx, info, u, calls, memory_of({.saved = saved_slot}, unit), Write::Overwrite);
}

void Stage::backward_unit(Ctx& ctx, const MicrobatchInfo& info, const StageSlots& slots, int unit,
                          Backward half) const {
  const Unit& u = units_[size_t(unit)];
  const SlotMemory m = memory_of(slots, unit);
  run(ctx, info, u, u.again, m, slots.write);
  run(ctx, info, u, u.backward[size_t(half)], m, slots.write);
  if (half == Backward::Weight || !u.copied_grad) return;
  ctx.kernels.convert(ctx.stream, {flat(m(u.copied_grad)), flat(m(u.input_grad))});
}

MatrixRef Stage::input_TC(int saved_slot) const {
  return memory_of({.saved = saved_slot}, 0)(input_TC_);
}
MatrixRef Stage::output_TC(int saved_slot) const {
  return memory_of({.saved = saved_slot}, 0)(output_TC_);
}
MatrixRef Stage::input_grad_TC(int weight_grad_slot) const {
  return memory_of({.weight_grad = weight_grad_slot}, 0)(input_grad_TC_);
}
MatrixRef Stage::output_grad_TC(int weight_grad_slot) const {
  return memory_of({.weight_grad = weight_grad_slot}, 0)(output_grad_TC_);
}

Route Stage::route(int saved_slot, int unit, int block) const {
  return units_[size_t(unit)].routes[size_t(block)](memory_of({.saved = saved_slot}, unit));
}

int Stage::num_routers(int unit) const { return int(units_[size_t(unit)].routes.size()); }

std::span<const int32_t> Stage::expert_load(int saved_slot, int unit, int block) const {
  const TensorRef load_E = route(saved_slot, unit, block).load_E;
  return {load_E.as<int32_t>(), size_t(load_E.num_elements())};
}

int Stage::num_largest_logits(int unit) const { return int(units_[size_t(unit)].max_H.size()); }

std::span<const float> Stage::largest_logits(int saved_slot, int unit, int block) const {
  const TensorAt& at = units_[size_t(unit)].max_H[size_t(block)];
  const TensorRef max_H = memory_of({.saved = saved_slot}, unit)(at);
  return {max_H.as<float>(), size_t(max_H.num_elements())};
}

TensorRef Stage::saved_tensor(const std::string& name, int saved_slot) const {
  if (!tables_.saved.contains(name)) return {};
  const TensorSpec& tensor = tables_.saved.at(name);
  char* base = static_cast<char*>(memory_.saved_slots[size_t(saved_slot)]);
  return {base + tensor.offset, tensor.dtype, tensor.shape};
}

std::span<int32_t> Stage::tokens(int saved_slot) const {
  const TensorRef tokens_T = saved_tensor("tokens_T", saved_slot);
  if (!tokens_T) return {};
  return {tokens_T.as<int32_t>(), size_t(tokens_T.num_elements())};
}
std::span<int32_t> Stage::targets(int saved_slot) const {
  const TensorRef targets_T = saved_tensor("targets_T", saved_slot);
  if (!targets_T) return {};
  return {targets_T.as<int32_t>(), size_t(targets_T.num_elements())};
}
std::span<int32_t> Stage::tokens_ahead(int64_t ahead, int saved_slot) const {
  const TensorRef tokens_T = saved_tensor(module_prefix(ahead) + "tokens_T", saved_slot);
  if (!tokens_T) return {};
  return {tokens_T.as<int32_t>(), size_t(tokens_T.num_elements())};
}
std::span<int32_t> Stage::targets_ahead(int64_t ahead, int saved_slot) const {
  const TensorRef targets_T = saved_tensor(module_prefix(ahead) + "targets_T", saved_slot);
  if (!targets_T) return {};
  return {targets_T.as<int32_t>(), size_t(targets_T.num_elements())};
}
std::span<const float> Stage::losses_ahead(int64_t ahead, int saved_slot) const {
  const TensorRef loss_T = saved_tensor(module_prefix(ahead) + "loss_T", saved_slot);
  if (!loss_T) return {};
  return {loss_T.as<float>(), size_t(loss_T.num_elements())};
}
std::span<const float> Stage::losses(int saved_slot) const {
  const TensorRef loss_T = saved_tensor("loss_T", saved_slot);
  if (!loss_T) return {};
  return {loss_T.as<float>(), size_t(loss_T.num_elements())};
}
std::span<const float> Stage::hits(int saved_slot) const {
  const TensorRef hit_T = saved_tensor("head.sum_T", saved_slot);
  if (!hit_T) return {};
  return {hit_T.as<float>(), size_t(hit_T.num_elements())};
}

}  // namespace trireme
