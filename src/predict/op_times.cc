#include "predict/op_times.h"

#include <algorithm>

#include "compile/kernel_price.h"
#include "compile/unit_price.h"
#include "graph/op_work.h"
#include "memory/stage_units.h"

namespace trireme {
namespace {

OpLimit limit_of(const OpWork& work) {
  if (work.attention) return OpLimit::Attention;
  return work.forward.products.empty() ? OpLimit::Memory : OpLimit::Products;
}

double product_flops(const OpWork& work) {
  double flops = 0.0;
  for (const HalfWork* half : {&work.forward, &work.input_grad, &work.weight_grad}) {
    for (const Product& product : half->products) flops += product.flops();
  }
  if (work.attention) flops += (1.0 + kBackwardAttention) * work.attention->forward_flops();
  return flops;
}

// How often a step runs F of each unit of a chunk.
std::vector<int> forward_counts(const RankPlan& rank, int chunk, size_t num_units) {
  std::vector<int> counts(num_units);
  for (const Action& action : rank.program) {
    if (action.kind != ActionKind::F || action.chunk != chunk) continue;
    const size_t first = size_t(action.first_unit);
    const size_t end = action.num_units == 0 ? num_units : first + size_t(action.num_units);
    for (size_t unit = first; unit < end; ++unit) ++counts[unit];
  }
  return counts;
}

// Prices of one micro-batch, for the ops of one kind of unit.
std::vector<OpTimes> price_kind(const UnitKind& kind, const ModelSpec& model,
                                const StageShape& shape, const Hardware& hardware) {
  const std::vector<OpWork> works = op_works(kind.graph, shard_model(model, shape), shape);
  const std::vector<OpSeconds> prices = price_ops(works, model, shape, hardware);
  std::vector<OpTimes> priced;
  for (size_t i = 0; i < works.size(); ++i) {
    OpTimes op{.op = kind.graph.ops[i].name,
               .limit = limit_of(works[i]),
               .flops = product_flops(works[i]),
               .seconds = prices[i]};
    if (kind.kept.runs_again[i]) op.seconds[size_t(OpHalf::Forward)] *= 2.0;
    priced.push_back(std::move(op));
  }
  return priced;
}

}  // namespace

std::vector<OpTimes> predict_ops(const RunPlan& plan, const RankPlan& rank,
                                 const Hardware& hardware) {
  std::vector<OpTimes> ops;
  for (size_t chunk = 0; chunk < rank.chunks.size(); ++chunk) {
    const StageUnits units = stage_units(plan.model, rank.chunks[chunk].stage, rank.shape);
    std::vector<std::vector<OpTimes>> kinds;
    for (const UnitKind& kind : units.kinds) {
      kinds.push_back(price_kind(kind, plan.model, rank.shape, hardware));
    }
    const std::vector<int> counts = forward_counts(rank, int(chunk), units.units.size());
    for (size_t u = 0; u < units.units.size(); ++u) {
      for (OpTimes op : kinds[size_t(units.units[u].kind)]) {
        op.unit = units.units[u].name;
        op.flops *= counts[u];
        for (double& seconds : op.seconds) seconds *= counts[u];
        ops.push_back(std::move(op));
      }
    }
  }
  return ops;
}

std::vector<OpTimes> mean_ops(std::vector<OpTimes> ops, const std::vector<OpSeconds>& measured,
                              int64_t steps) {
  for (size_t i = 0; i < ops.size(); ++i) {
    std::ranges::transform(measured[i], ops[i].seconds.begin(),
                           [&](double all) { return all / double(steps); });
  }
  return ops;
}

std::vector<OpTimes> sum_of_layers(const std::vector<OpTimes>& ops) {
  std::vector<OpTimes> sums;
  for (OpTimes op : ops) {
    if (op.unit.starts_with("layers.")) op.unit = "layers";
    const auto same = std::find_if(sums.begin(), sums.end(), [&](const OpTimes& sum) {
      return sum.unit == op.unit && sum.op == op.op;
    });
    if (same == sums.end()) {
      sums.push_back(std::move(op));
      continue;
    }
    same->flops += op.flops;
    for (size_t half = 0; half < op.seconds.size(); ++half) {
      same->seconds[half] += op.seconds[half];
    }
  }
  return sums;
}

}  // namespace trireme
