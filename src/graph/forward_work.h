#pragma once

#include "graph/graph.h"
#include "schema/model_spec.h"

namespace trireme {

// The work of the forward half of one op per token, on a rank that has the whole model.
struct ForwardWork {
  double matmul_flops = 0.0;
  double attention_flops = 0.0;
  double elements = 0.0;  // of the matrices that it reads and writes; weights are not counted
};
ForwardWork forward_work(const Graph& unit, const Op& op, const ModelSpec& model);

}  // namespace trireme
