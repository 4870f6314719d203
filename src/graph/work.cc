#include "graph/work.h"

#include <algorithm>

#include "graph/model_graphs.h"
#include "graph/op_work.h"

namespace trireme {

std::vector<ModelFlops> forward_flops(const Graph& unit, ModelSpec model) {
  // Every token visits top_k experts. With as many sequences as experts, all experts have equally
  // many visits, and every number below is a whole one.
  model.capacity_factor = 0.0;
  const StageShape shape{.micro_sequences = std::max<int64_t>(1, model.experts)};
  const double tokens = double(shape.micro_sequences) * double(model.seq_len);
  std::vector<ModelFlops> flops;
  for (const OpWork& work : op_works(unit, shard_model(model, shape), shape)) {
    ModelFlops& of_op = flops.emplace_back();
    for (const Product& product : work.forward.products) of_op.matmul += product.flops() / tokens;
    if (work.attention) of_op.attention = work.attention->forward_flops() / tokens;
  }
  return flops;
}

// dX and dW take as many FLOPs as the forward pass each.
ModelFlops flops_per_token(const Graph& unit, const ModelSpec& model) {
  ModelFlops all;
  for (const ModelFlops& of_op : forward_flops(unit, model)) {
    all.matmul += 3.0 * of_op.matmul;
    all.attention += 3.0 * of_op.attention;
  }
  return all;
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
