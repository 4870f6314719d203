#include "graph/work.h"

#include <algorithm>

#include "graph/model_graphs.h"
#include "graph/op_work.h"

namespace trireme {

namespace {

// Every token visits top_k experts. With as many sequences as experts, all experts have equally
// many visits, and every number below is a whole one.
class EvenVisits {
 public:
  EvenVisits(const Graph& unit, ModelSpec model, double document_keys = 0.0)
      : tokens_(double(std::max<int64_t>(1, model.experts)) * double(model.seq_len)) {
    model.capacity_factor = 0.0;
    const StageShape shape{.micro_sequences = std::max<int64_t>(1, model.experts),
                           .document_keys = document_keys};
    works_ = op_works(unit, shard_model(model, shape), shape);
  }

  const std::vector<OpWork>& works() const { return works_; }
  double of_token(const HalfWork& half) const {
    double flops = 0.0;
    for (const Product& product : half.products) {
      if (!product.is_again) flops += product.flops() / tokens_;
    }
    return flops;
  }
  double of_token(const AttentionWork& attention) const {
    return attention.forward_flops() / tokens_;
  }

 private:
  double tokens_;
  std::vector<OpWork> works_;
};

// Products without weights, of queries and keys of an indexer.
bool is_of_attention(const OpWork& work) { return work.kind == OpKind::ChooseKeys; }

}  // namespace

std::vector<ModelFlops> forward_flops(const Graph& unit, const ModelSpec& model) {
  const EvenVisits visits(unit, model);
  std::vector<ModelFlops> flops;
  for (const OpWork& work : visits.works()) {
    ModelFlops& of_op = flops.emplace_back();
    (is_of_attention(work) ? of_op.attention : of_op.matmul) = visits.of_token(work.forward);
    if (work.attention) of_op.attention += visits.of_token(*work.attention);
  }
  return flops;
}

// Beside the forward pass dX, and dW of what is trained. dX of attention takes twice as many as its
// forward pass.
ModelFlops flops_per_token(const Graph& unit, const ModelSpec& model, double document_keys) {
  const EvenVisits visits(unit, model, document_keys);
  ModelFlops all;
  for (const OpWork& work : visits.works()) {
    for (const HalfWork* half : {&work.forward, &work.input_grad, &work.weight_grad}) {
      (is_of_attention(work) ? all.attention : all.matmul) += visits.of_token(*half);
    }
    if (work.attention) all.attention += 3.0 * visits.of_token(*work.attention);
  }
  return all;
}

ModelFlops model_flops_per_token(const ModelSpec& model, double document_keys) {
  ModelFlops all = flops_per_token(head_graph(model), model);
  all.matmul += flops_per_token(embedding_graph(model), model).matmul;  // a lookup has none
  for (const LayerRun& run : layer_kinds(model)) {
    const ModelFlops layer = flops_per_token(layer_graph(model, run.first), model, document_keys);
    all.matmul += double(run.count) * layer.matmul;
    all.attention += double(run.count) * layer.attention;
  }
  return all;
}

}  // namespace trireme
