#include "graph/backward_reads.h"

namespace trireme {

bool has_weight_grad(const Op& op) { return !op.params.empty(); }

std::vector<ValueId> read_by_backward(const Op& op) {
  switch (op.kind) {
    case OpKind::Norm:
    case OpKind::Scale:
    case OpKind::Linear:
    case OpKind::GroupedLinear:
    case OpKind::Activation:
    case OpKind::Route:
    case OpKind::SoftmaxParts:
    case OpKind::Lookup:
      return op.inputs;
    case OpKind::Attention: {
      std::vector<ValueId> read = op.inputs;
      read.push_back(op.outputs.front());
      return read;
    }
    case OpKind::CrossEntropy:  // fused with the projection; alone it reads nothing that is kept
      return op.params.empty() ? std::vector<ValueId>{} : op.inputs;
    default:  // linear in its input, and without weights
      return {};
  }
}

}  // namespace trireme
