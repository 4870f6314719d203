#include "compile/unit_price.h"

#include <algorithm>

#include "compile/kernel_price.h"
#include "compile/trainer_kernels.h"
#include "graph/all_passes.h"
#include "graph/fuse.h"
#include "graph/layer_keep.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

// Bytes that kernels beside the products move for every score of materialized attention. They are
// counted, not fitted: the softmax reads and writes a score, and so on (docs/prices.md).
struct ScoreBytes {
  double forward = 0.0, backward = 0.0;
  int calls = 0;
};
ScoreBytes score_bytes(AttentionPractice practice, bool has_dropout) {
  const bool is_unfused = practice == AttentionPractice::MaterializedUnfusedSoftmax;
  ScoreBytes bytes = is_unfused ? ScoreBytes{24.0, 10.0, 5} : ScoreBytes{4.0, 6.0, 1};
  if (has_dropout) {  // reads and writes a score, and writes or reads its mask
    bytes.forward += 5.0;
    bytes.backward += 5.0;
    ++bytes.calls;
  }
  return bytes;
}

// The seconds of the device in one half of an op or of a unit, by what they are spent on, and the
// kernels that are launched for it.
struct HalfTimes {
  double products_s = 0.0, attention_s = 0.0, memory_s = 0.0;
  int calls = 0;

  double total_s() const { return products_s + attention_s + memory_s; }
  // The host launches kernels while the device works, and the slower of the two sets the pace. The
  // threads of a processor launch them themselves, and a host that waits for every kernel adds
  // both.
  double waits_for_launches_s(double launch_s, bool waits_for_each) const {
    const double launches_s = calls * launch_s;
    return waits_for_each ? launches_s : std::max(0.0, launches_s - total_s());
  }
  HalfTimes& operator+=(const HalfTimes& other) {
    products_s += other.products_s;
    attention_s += other.attention_s;
    memory_s += other.memory_s;
    calls += other.calls;
    return *this;
  }
  friend HalfTimes operator*(double share, const HalfTimes& times) {
    return {share * times.products_s, share * times.attention_s, share * times.memory_s,
            share > 0.0 ? times.calls : 0};
  }
};

// The device alone, whose host is never too slow.
Hardware with_free_launches(Hardware hardware) {
  hardware.launch_s = 0.0;
  return hardware;
}

class UnitPricer {
 public:
  UnitPricer(const ModelSpec& model, const StageShape& shape, const Hardware& hardware)
      : shard_(shard_model(model, shape)),
        shape_(shape),
        launch_s_(hardware.launch_s),
        hardware_(with_free_launches(hardware)) {}

  ComputeTimes price(const Graph& stated, Recompute recompute) const {
    const Graph placed = placed_graph(stated, shape_);
    const Graph fused = fuse(placed);
    std::vector<OpWork> works =
        op_works(hardware_.practice.fuses_kernels ? fused : placed, shard_, shape_);
    if (hardware_.practice.fuses_dropout_add) join_dropouts(placed, works);
    if (!hardware_.practice.fuses_kernels) {
      run_ops_apart(placed, shard_, shape_, hardware_.practice, works);
    }
    const std::vector<double> again = shares_again(placed, fused, recompute);
    HalfTimes f, b, w, recomputed;
    for (size_t i = 0; i < works.size(); ++i) {
      const auto [forward, input_grad, weight_grad] = halves_of(works[i]);
      f += forward;
      b += input_grad;
      w += weight_grad;
      recomputed += again[i] * forward;
    }
    ComputeTimes times;
    for (const HalfTimes& half : {f, b, w}) {
      times.products_s += half.products_s;
      times.attention_s += half.attention_s;
      times.memory_s += half.memory_s + launches_s(half);
    }
    times.again_s = seconds_of(recomputed);
    times.f_s = seconds_of(f);
    times.b_s = seconds_of(b) + times.again_s;
    times.w_s = seconds_of(w);
    return times;
  }

  OpSeconds price(const OpWork& work) const {
    OpSeconds seconds;
    std::ranges::transform(halves_of(work), seconds.begin(),
                           [&](const HalfTimes& half) { return seconds_of(half); });
    return seconds;
  }

 private:
  // In the order of OpHalf.
  std::array<HalfTimes, 3> halves_of(const OpWork& work) const {
    return {price(work.forward, work, 1.0), price(work.input_grad, work, kBackwardAttention),
            price_weight_grad(work.weight_grad)};
  }
  double launches_s(const HalfTimes& half) const {
    return half.waits_for_launches_s(
        launch_s_, hardware_.is_processor() || hardware_.practice.blocks_on_launches);
  }
  double seconds_of(const HalfTimes& half) const { return half.total_s() + launches_s(half); }

  // One kernel drops numbers and adds them to the residual stream: beside the bytes of the sum, F
  // writes a mask and B reads it, one byte for every 16-bit number.
  static void join_dropouts(const Graph& placed, std::vector<OpWork>& works) {
    for (size_t i = 0; i + 1 < works.size(); ++i) {
      const Op& sum = placed.ops[i + 1];
      const bool is_joined = placed.ops[i].kind == OpKind::Dropout && sum.kind == OpKind::Add &&
                             reads(sum, placed.ops[i].outputs.front());
      if (!is_joined) continue;
      const double mask_bytes = works[i].forward.bytes / 4.0;
      works[i].forward = {.products = {}, .bytes = mask_bytes, .calls = 0};
      works[i].input_grad.bytes += mask_bytes;
    }
  }

  // Of every op the share of the forward pass that runs again before the backward pass.
  std::vector<double> shares_again(const Graph& placed, const Graph& fused,
                                   Recompute recompute) const {
    const TrainerPractice& practice = hardware_.practice;
    if (recompute == Recompute::Full && practice.recomputes_whole_layers) {
      return shares_of_whole_layer(placed, practice.stops_recompute_early);
    }
    const bool is_selective = recompute == Recompute::Selective;
    if (is_selective && practice.selective == SelectivePractice::EveryOtherProduct) {
      return shares_of_every_other_product(placed, shard_);
    }
    if (is_selective && practice.selective == SelectivePractice::Attention) {
      std::vector<double> shares;
      for (const Op& op : placed.ops) shares.push_back(op.kind == OpKind::Attention ? 1.0 : 0.0);
      return shares;
    }
    const bool is_layer = recompute != Recompute::None;
    const Keep kept = keep(fused, is_layer ? policy_of_layer(shard_, shape_, fused) : KeepPolicy{});
    const std::vector<bool> again =
        practice.fuses_kernels ? kept.runs_again : runs_again_before_fuse(placed, fused, kept);
    return {again.begin(), again.end()};
  }

  HalfTimes price(const HalfWork& half) const {
    HalfTimes times;
    for (const Product& product : half.products) {
      times.products_s += price_product(product, shape_.compute, hardware_);
    }
    times.memory_s = price_vectors(half, hardware_);
    times.calls = half.calls + int(half.products.size());
    return times;
  }
  HalfTimes price_weight_grad(const HalfWork& half) const {
    HalfTimes times = price(weight_grad_on(half, hardware_));
    for (const Product& product : half.products) {
      const double params = double(product.m) * double(product.n) * double(product.count);
      times.memory_s += price_memory(params * hardware_.practice.grad_copy_bytes, 0, hardware_);
      if (hardware_.practice.grad_copy_bytes > 0.0) ++times.calls;
    }
    return times;
  }
  HalfTimes price(const HalfWork& half, const OpWork& work, double attention_factor) const {
    HalfTimes times = price(half);
    if (!work.attention) return times;
    times.attention_s = price_attention(*work.attention, attention_factor);
    times.calls += attention_calls(attention_factor > 1.0);
    return times;
  }

  double price_attention(const AttentionWork& work, double factor) const {
    const AttentionPractice practice = hardware_.practice.attention;
    const bool is_backward = factor > 1.0;
    const double copies_s =
        hardware_.practice.fuses_kernels ? 0.0 : price_copies(work, is_backward);
    if (practice != AttentionPractice::Fused) {
      return copies_s + price_scores(work, practice, is_backward);
    }
    return copies_s + price_fused_attention(work, factor, shape_.compute, hardware_);
  }

  int attention_calls(bool is_backward) const {
    const TrainerPractice& practice = hardware_.practice;
    const int copies = practice.fuses_kernels ? 0 : 1;
    if (practice.attention == AttentionPractice::Fused) return copies + 1;
    const int products = is_backward ? 4 : 2;
    return copies + products + score_bytes(practice.attention, shard_.dropout > 0.0).calls;
  }

  // The gradients of queries, keys and values are copied side by side, for the product that has
  // made all three. Products of scores and values lie head by head, and are copied to lie token by
  // token.
  double price_copies(const AttentionWork& work, bool is_backward) const {
    const bool lies_by_heads = hardware_.practice.attention != AttentionPractice::Fused;
    const bool is_joined = !hardware_.practice.runs_products_apart;
    double copied = is_backward && is_joined ? work.elements() : 0.0;
    if (lies_by_heads) copied += work.outputs();
    if (hardware_.practice.repeats_key_heads) copied += work.copied_keys();
    return price_memory(2.0 * copied * double(size_of(shape_.compute)), 1, hardware_);
  }

  // Two products of all queries and keys in F, four in B, and what is done with their scores.
  double price_scores(const AttentionWork& work, AttentionPractice practice,
                      bool is_backward) const {
    const int64_t batch = work.sequences * work.heads;
    const double to_scores_s =
        price_product({work.queries, work.keys, work.head_dim, batch}, shape_.compute, hardware_);
    const double to_values_s =
        price_product({work.queries, work.out_dim(), work.keys, batch}, shape_.compute, hardware_);
    const ScoreBytes bytes = score_bytes(practice, shard_.dropout > 0.0);
    const double moved = work.scores() * (is_backward ? bytes.backward : bytes.forward);
    return to_scores_s + (is_backward ? 3.0 : 1.0) * to_values_s +
           price_memory(moved, bytes.calls, hardware_);
  }

  ModelShard shard_;
  const StageShape& shape_;
  double launch_s_;
  Hardware hardware_;
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

ComputeTimes UnitPrices::of(const StageSpec& stage) const {
  ComputeTimes times;
  const int64_t end = stage.first_layer + stage.num_layers;
  for (const LayerRun& run : kinds) {
    const int64_t count =
        std::min(run.first + run.count, end) - std::max(run.first, stage.first_layer);
    if (count > 0) times += double(count) * layers[size_t(run.kind)];
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

UnitPrices join_prices(UnitPrices a, const UnitPrices& b, OfDevices which) {
  const auto join = [&](ComputeTimes& one, const ComputeTimes& other) {
    for (const auto part :
         {&ComputeTimes::f_s, &ComputeTimes::b_s, &ComputeTimes::w_s, &ComputeTimes::products_s,
          &ComputeTimes::attention_s, &ComputeTimes::memory_s, &ComputeTimes::again_s}) {
      one.*part = which == OfDevices::Fastest ? std::min(one.*part, other.*part)
                                              : std::max(one.*part, other.*part);
    }
  };
  join(a.embedding, b.embedding);
  join(a.head, b.head);
  for (size_t kind = 0; kind < a.layers.size(); ++kind) join(a.layers[kind], b.layers[kind]);
  return a;
}

UnitPrices price_units(const ModelSpec& model, const StageShape& shape, const Hardware& hardware,
                       OfDevices which) {
  if (hardware.is_mixed()) {
    UnitPrices joined = price_units(model, shape, hardware.all_of_device(0));
    for (int device = 1; device < hardware.num_devices(); ++device) {
      joined = join_prices(std::move(joined),
                           price_units(model, shape, hardware.all_of_device(device)), which);
    }
    return joined;
  }
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

std::vector<OpSeconds> price_ops(const std::vector<OpWork>& works, const ModelSpec& model,
                                 const StageShape& shape, const Hardware& hardware) {
  if (hardware.is_mixed()) {
    std::vector<OpSeconds> least = price_ops(works, model, shape, hardware.all_of_device(0));
    for (int device = 1; device < hardware.num_devices(); ++device) {
      const auto others = price_ops(works, model, shape, hardware.all_of_device(device));
      for (size_t i = 0; i < least.size(); ++i) {
        for (size_t half = 0; half < least[i].size(); ++half) {
          least[i][half] = std::min(least[i][half], others[i][half]);
        }
      }
    }
    return least;
  }
  const UnitPricer pricer(model, shape, hardware);
  std::vector<OpSeconds> seconds;
  for (const OpWork& work : works) seconds.push_back(pricer.price(work));
  return seconds;
}

UnitPrices price_units(const RunPlan& plan, const Hardware& hardware, OfDevices which) {
  return price_units(plan.model, plan.shape, hardware, which);
}

PlanPrices price_places(const RunPlan& plan, const Hardware& hardware, OfDevices which) {
  PlanPrices prices;
  for (int place = 0; place < plan.mesh.pp; ++place) {
    const auto [of_tp, is_new] = prices.of_tp.try_emplace(plan.mesh.tp_at(place));
    if (is_new) of_tp->second = price_units(plan.model, plan.shape_at(place), hardware, which);
  }
  return prices;
}

}  // namespace trireme
