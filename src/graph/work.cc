#include "graph/work.h"

#include "graph/forward_work.h"
#include "graph/model_graphs.h"

namespace trireme {

// dX and dW take as many FLOPs as the forward pass each.
ModelFlops flops_per_token(const Graph& unit, const ModelSpec& model) {
  ModelFlops flops;
  for (const Op& op : unit.ops) {
    const ForwardWork work = forward_work(unit, op, model);
    flops.matmul += 3.0 * work.matmul_flops;
    flops.attention += 3.0 * work.attention_flops;
  }
  return flops;
}

ModelFlops model_flops_per_token(const ModelSpec& model) {
  ModelFlops all = flops_per_token(head_graph(model), model);
  for (const LayerRun& run : layer_kinds(model)) {
    const ModelFlops layer = flops_per_token(layer_graph(model, run.first), model);
    all.matmul += double(run.count) * layer.matmul;
    all.attention += double(run.count) * layer.attention;
  }
  return all;
}

}  // namespace trireme
