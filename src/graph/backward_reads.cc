#include "graph/backward_reads.h"

#include <algorithm>

namespace trireme {

bool has_weight_grad(const Graph& graph, const Op& op) {
  return std::any_of(op.params.begin(), op.params.end(),
                     [&](ParamId id) { return graph.params[size_t(id)].is_trained; });
}

bool has_weight_grad(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(),
                     [&](const Op& op) { return has_weight_grad(graph, op); });
}

bool weight_grad_reads_input(const Graph& graph, const Op& op) {
  switch (op.kind) {
    case OpKind::Linear:
    case OpKind::Convolution:
    case OpKind::GroupedLinear:
      return std::any_of(op.params.begin(), op.params.end(), [&](ParamId id) {
        const Param& param = graph.params[size_t(id)];
        return param.is_trained && param.is_matrix();
      });
    case OpKind::LatentAttention:
      return false;
    default:
      return has_weight_grad(graph, op);
  }
}

bool weight_grad_reads_output_grad(const Graph& graph, const Op& op) {
  return op.kind != OpKind::LatentAttention && has_weight_grad(graph, op);
}

std::vector<ValueId> read_by_backward(const Graph& graph, const Op& op) {
  switch (op.kind) {
    case OpKind::ChooseKeys:
    case OpKind::Norm:
    case OpKind::Activation:
    case OpKind::Route:
    case OpKind::Lookup:
    case OpKind::BatchNorm:
      return op.inputs;
    case OpKind::Pool:  // the largest pixel is found again
      return op.averages ? std::vector<ValueId>{} : op.inputs;
    case OpKind::Scale:
    case OpKind::Linear:
    case OpKind::Convolution:
    case OpKind::GroupedLinear:
    case OpKind::SoftmaxParts:  // W alone reads the input, from which it projects the logits again
      return weight_grad_reads_input(graph, op) ? op.inputs : std::vector<ValueId>{};
    case OpKind::Attention: {
      std::vector<ValueId> read = op.inputs;
      read.push_back(op.outputs.front());
      return read;
    }
    case OpKind::LatentAttention:  // has a copy of the latents
      return {op.inputs.front(), op.outputs.front()};
    case OpKind::CrossEntropy:  // fused with the projection; alone it reads nothing that is kept
      return weight_grad_reads_input(graph, op) ? op.inputs : std::vector<ValueId>{};
    default:  // linear in its input, and without weights
      return {};
  }
}

}  // namespace trireme
