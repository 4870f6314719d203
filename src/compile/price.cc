#include "compile/price.h"

#include <algorithm>

#include "graph/all_passes.h"
#include "graph/fuse.h"
#include "graph/layer_keep.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

constexpr double kAssumedCopyBytesPerFlop = 0.3;

// Bytes that kernels move for every score of materialized attention. They are counted, not fitted:
// the product writes a score, the softmax reads and writes it, and so on (docs/prices.md).
struct ScoreBytes {
  double forward = 0.0, backward = 0.0;
  int calls = 0;
};
ScoreBytes score_bytes(AttentionPractice practice, bool has_dropout) {
  const bool is_unfused = practice == AttentionPractice::MaterializedUnfusedSoftmax;
  ScoreBytes bytes = is_unfused ? ScoreBytes{29.0, 19.0, 5} : ScoreBytes{8.0, 14.0, 1};
  if (has_dropout) {  // reads and writes a score, and writes or reads its mask
    bytes.forward += 5.0;
    bytes.backward += 5.0;
    ++bytes.calls;
  }
  return bytes;
}

// The seconds of one half of an op, by what they are spent on.
struct HalfTimes {
  double products_s = 0.0, attention_s = 0.0, memory_s = 0.0;
  double total_s() const { return products_s + attention_s + memory_s; }
};

class UnitPricer {
 public:
  UnitPricer(const ModelSpec& model, const StageShape& shape, const Hardware& hardware)
      : shard_(shard_model(model, shape)), shape_(shape), hardware_(hardware) {}

  ComputeTimes price(const Graph& stated, Recompute recompute) const {
    const Graph placed = placed_graph(stated, shape_);
    const Graph fused = fuse(placed);
    const std::vector<OpWork> works =
        op_works(hardware_.practice.fuses_kernels ? fused : placed, shard_, shape_);
    const std::vector<bool> again = ops_again(placed, fused, recompute);
    ComputeTimes times;
    for (size_t i = 0; i < works.size(); ++i) {
      const OpWork& work = works[i];
      const HalfTimes f = price(work.forward, work, 1.0);
      const HalfTimes b = price(work.input_grad, work, kBackwardAttention);
      const HalfTimes w = price(work.weight_grad);
      times.f_s += f.total_s();
      times.b_s += b.total_s();
      times.w_s += w.total_s();
      for (const HalfTimes& half : {f, b, w}) {
        times.products_s += half.products_s;
        times.attention_s += half.attention_s;
        times.memory_s += half.memory_s;
      }
      if (again[i]) times.again_s += f.total_s();
    }
    times.b_s += times.again_s;
    return times;
  }

 private:
  // The ops whose forward pass runs again before their backward pass.
  std::vector<bool> ops_again(const Graph& placed, const Graph& fused, Recompute recompute) const {
    const TrainerPractice& practice = hardware_.practice;
    if (recompute == Recompute::Full && practice.recomputes_whole_layers) {
      return std::vector<bool>(placed.ops.size(), true);
    }
    if (recompute == Recompute::Selective && practice.recomputes_attention) {
      std::vector<bool> again;
      for (const Op& op : placed.ops) again.push_back(op.kind == OpKind::Attention);
      return again;
    }
    const bool is_layer = recompute != Recompute::None;
    const Keep kept = keep(fused, is_layer ? policy_of_layer(shard_, shape_, fused) : KeepPolicy{});
    return practice.fuses_kernels ? kept.runs_again : runs_again_before_fuse(placed, fused, kept);
  }

  HalfTimes price(const HalfWork& half) const {
    HalfTimes times;
    for (const Product& product : half.products) {
      times.products_s += price_product(product, shape_.compute, hardware_);
    }
    times.memory_s = price_memory(half.bytes, half.calls, hardware_);
    return times;
  }
  HalfTimes price(const HalfWork& half, const OpWork& work, double attention_factor) const {
    HalfTimes times = price(half);
    if (work.attention) times.attention_s = price_attention(*work.attention, attention_factor);
    return times;
  }

  double price_attention(const AttentionWork& work, double factor) const {
    const AttentionPractice practice = hardware_.practice.attention;
    const double copies_s = hardware_.practice.fuses_kernels ? 0.0 : price_copies(work);
    if (practice != AttentionPractice::Fused) {
      return copies_s + price_scores(work, practice, factor > 1.0);
    }
    return copies_s + price_fused_attention(work, factor, shape_.compute, hardware_);
  }

  // Queries, keys and values of every head are copied, so that each head lies by itself.
  double price_copies(const AttentionWork& work) const {
    return price_memory(2.0 * work.elements() * double(size_of(shape_.compute)), 1, hardware_);
  }

  // Two products of all queries and keys in F, four in B, and what is done with their scores.
  double price_scores(const AttentionWork& work, AttentionPractice practice,
                      bool is_backward) const {
    const int64_t batch = work.sequences * work.heads;
    const double to_scores_s =
        price_product({work.queries, work.keys, work.head_dim, batch}, shape_.compute, hardware_);
    const double to_values_s =
        price_product({work.queries, work.head_dim, work.keys, batch}, shape_.compute, hardware_);
    const ScoreBytes bytes = score_bytes(practice, shard_.dropout > 0.0);
    const double moved = work.scores() * (is_backward ? bytes.backward : bytes.forward);
    return to_scores_s + (is_backward ? 3.0 : 1.0) * to_values_s +
           price_memory(moved, bytes.calls, hardware_);
  }

  ModelShard shard_;
  const StageShape& shape_;
  const Hardware& hardware_;
};

}  // namespace

ComputeTimes& ComputeTimes::operator+=(const ComputeTimes& other) {
  for (double ComputeTimes::*part :
       {&ComputeTimes::f_s, &ComputeTimes::b_s, &ComputeTimes::w_s, &ComputeTimes::products_s,
        &ComputeTimes::attention_s, &ComputeTimes::memory_s, &ComputeTimes::again_s}) {
    this->*part += other.*part;
  }
  return *this;
}

ComputeTimes operator*(double factor, const ComputeTimes& times) {
  return {factor * times.f_s,        factor * times.b_s,         factor * times.w_s,
          factor * times.products_s, factor * times.attention_s, factor * times.memory_s,
          factor * times.again_s};
}

double seconds_of(const ComputeTimes& times, ActionKind kind) {
  switch (kind) {
    case ActionKind::F:
      return times.f_s;
    case ActionKind::B:
      return times.b_s;
    case ActionKind::W:
      return times.w_s;
    case ActionKind::BW:
      return times.b_s + times.w_s;
    default:
      return 0.0;
  }
}

double price_product(const Product& product, DType compute, const Hardware& hardware) {
  const double deep_flops = 2.0 * double(product.m) * double(product.n) *
                            (double(product.k) + hardware.matmul_depth) * double(product.count);
  const double flops_s = deep_flops / (hardware.peak_flops(compute) * hardware.matmul_share);
  const double bytes = product.elements() * double(size_of(compute));
  return std::max(flops_s, price_memory(bytes, 1, hardware));
}

double price_memory(double bytes, int calls, const Hardware& hardware) {
  const double bytes_s = bytes / (hardware.memory_bytes_per_s * hardware.memory_share);
  return std::max(bytes_s, calls * hardware.launch_s);
}

double fused_attention_bytes(const AttentionWork& work, DType compute) {
  const double outputs =
      double(work.sequences) * double(work.heads) * double(work.queries) * double(work.head_dim);
  return (work.elements() + outputs) * double(size_of(compute));
}

double price_fused_attention(const AttentionWork& work, double factor, DType compute,
                             const Hardware& hardware) {
  const double of_practice = hardware.practice.attention_share;
  const double share = of_practice > 0.0 ? of_practice : hardware.attention_share;
  const double flops_s = factor * work.forward_flops() / (hardware.peak_flops(compute) * share);
  return std::max(flops_s, hardware.launch_s);
}

ComputeTimes UnitPrices::of(const StageSpec& stage) const {
  ComputeTimes times;
  for (const LayerRun& run : layer_runs(kinds, stage)) {
    times += double(run.count) * layers[size_t(run.kind)];
  }
  if (stage.has_embedding) times += embedding;
  if (stage.has_head) times += head;
  return times;
}

ComputeTimes UnitPrices::of(const StageSpec& stage, const Action& action) const {
  const int units = num_units(stage);
  const int end = action.num_units == 0 ? units : action.first_unit + action.num_units;
  StageSpec part{.num_layers = 0, .has_embedding = false, .has_head = false};
  const int before = std::max(0, action.first_unit - (stage.has_embedding ? 1 : 0));
  part.first_layer = stage.first_layer + before;
  for (int unit = action.first_unit; unit < end; ++unit) {
    const bool is_embedding = stage.has_embedding && unit == 0;
    const bool is_head = stage.has_head && unit == units - 1;
    part.has_embedding |= is_embedding;
    part.has_head |= is_head;
    if (!is_embedding && !is_head) ++part.num_layers;
  }
  return of(part);
}

double price_forward(const OpWork& work, DType compute, const Hardware& hardware) {
  double seconds = price_memory(work.forward.bytes, work.forward.calls, hardware);
  for (const Product& product : work.forward.products) {
    seconds += price_product(product, compute, hardware);
  }
  if (work.attention) seconds += price_fused_attention(*work.attention, 1.0, compute, hardware);
  return seconds;
}

UnitPrices price_units(const ModelSpec& model, const StageShape& shape, const Hardware& hardware) {
  const UnitPricer pricer(model, shape, hardware);
  UnitPrices prices{pricer.price(embedding_graph(model), Recompute::None),
                    pricer.price(head_graph(model), Recompute::None),
                    {},
                    layer_kinds(model)};
  for (const LayerRun& kind : prices.kinds) {
    prices.layers.push_back(pricer.price(layer_graph(model, kind.first), shape.recompute));
  }
  return prices;
}

UnitPrices price_units(const RunPlan& plan, const Hardware& hardware) {
  return price_units(plan.model, plan.shape, hardware);
}

double price_update(double elements, const StageShape& shape, const Hardware& hardware) {
  if (hardware.practice.update_bytes > 0.0) {
    return price_memory(elements * hardware.practice.update_bytes, 0, hardware);
  }
  const OptimizerStateSpec& state = shape.optimizer_state;
  const int64_t moment_bytes = (state.exp_avg + state.exp_avg_sq) * size_of(state.moment);
  const int64_t master_bytes = state.has_master(shape.compute) ? size_of(DType::F32) : 0;
  const int64_t bytes =
      2 * (size_of(shape.grad) + moment_bytes + master_bytes + size_of(shape.compute));
  return price_memory(elements * double(bytes), 0, hardware);
}

double peak_flops(const RunPlan& plan, const Hardware& hardware) {
  return hardware.peak_flops(plan.shape.compute);
}

Hardware assumed_hardware(const ComputeCeilings& ceilings) {
  Hardware hardware;
  hardware.name = "this machine";
  hardware.fp32_flops = ceilings.fp32_flops_per_s;
  hardware.bf16_flops = ceilings.bf16_flops_per_s;
  hardware.fp16_flops = ceilings.fp32_flops_per_s;  // fp16 is computed in fp32
  hardware.memory_bytes_per_s = kAssumedCopyBytesPerFlop * ceilings.fp32_flops_per_s;
  return hardware;
}

}  // namespace trireme
