#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/model_shard.h"

namespace trireme {

// A tensor that goes from one placement over the ranks of an axis to another.
struct TensorMove {
  std::string tensor;
  MeshAxis axis = MeshAxis::Tp;  // or Dp, where its ranks share a batch (StageShape::batch_ranks)
  Redistribution change;
  Shape global;
  DType dtype = DType::F32;
  bool in_pieces = false;                 // beside a product
  std::vector<std::string> weights = {};  // then: the parameters of that product

  // The number of ranks along its axis, in a layout.
  int num_ranks(const StageShape& layout) const {
    return axis == MeshAxis::Dp ? layout.batch_ranks : layout.tp;
  }
};

// The transfers of one micro-batch between the tp ranks, and those inside ops between the dp ranks,
// in some order: in F of training, B and W.
// Together they are BW, which recomputes once.
struct StageMoves {
  std::vector<TensorMove> forward;
  std::vector<TensorMove> recompute;  // before B, and again before W where that is apart
  std::vector<TensorMove> backward_input;
  std::vector<TensorMove> backward_weight;
};
StageMoves stage_moves(const ModelSpec& model, const StageSpec& stage, const StageShape& shape);

}  // namespace trireme
