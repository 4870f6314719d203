#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/model_shard.h"

namespace trireme {

// A tensor that goes from one placement over the tp ranks to another.
struct TensorMove {
  std::string tensor;
  Redistribution change;
  Shape global;
  DType dtype = DType::F32;
  bool in_pieces = false;                 // beside a product
  std::vector<std::string> weights = {};  // then: the parameters of that product
};

// The transfers of one micro-batch between the tp ranks, in some order: in F of training, B and W.
// Together they are BW, which recomputes once.
struct StageMoves {
  std::vector<TensorMove> forward;
  std::vector<TensorMove> recompute;  // before B, and again before W where that is apart
  std::vector<TensorMove> backward_input;
  std::vector<TensorMove> backward_weight;
};
StageMoves stage_moves(const ModelSpec& model, const StageSpec& stage, const StageShape& shape);

}  // namespace trireme
