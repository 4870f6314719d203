#pragma once

#include <string>
#include <vector>

#include "spec/mesh.h"
#include "spec/model_layout.h"
#include "spec/stage_shape.h"

namespace trireme {

// How a tensor lies over the ranks of each axis inside a layer.
struct TensorPlacement {
  Placement tp;
  Placement cp = Placement::shard(0);  // every rank has tokens of its own
  Placement ep = Placement::shard(0);
  Placement on(MeshAxis axis) const {
    return axis == MeshAxis::Tp ? tp : axis == MeshAxis::Cp ? cp : ep;
  }
  friend bool operator==(const TensorPlacement&, const TensorPlacement&) = default;
};

// A tensor that goes from one placement over the ranks of an axis to another.
struct TensorMove {
  std::string tensor;
  Redistribution change;
  Shape global;
  DType dtype = DType::F32;
  MeshAxis axis = MeshAxis::Tp;
  bool in_pieces = false;                 // beside a matmul
  std::vector<std::string> weights = {};  // then: of that matmul
};

// One step of a stage's forward pass as the axes inside a layer see it. The backward pass follows:
// a step's gradient has the dual placements.
struct FlowStep {
  enum class Kind : uint8_t {
    Lookup,    // tokens in rows of the table that this rank has: an addend of each token's vector
    Norm,      // token by token
    Enter,     // enter_block
    Route,     // the router: the same on every tp rank
    Count,     // how often this rank's tokens visit every expert: an addend of that of all
    Balance,   // what whole sequences, or micro-batches, mean for each token's visits
    Column,    // a linear whose rows are this rank's
    Attend,    // queries meet the keys `onto` of whole sequences, or both are heads of whole ones
    Shards,    // activation: this rank's columns alone; of `onto` its gradient's addends
    Row,       // a linear whose columns are this rank's: an addend of the result
    Rows,      // several of them, without biases
    Merge,     // two addends of one result
    Leave,     // leave_block
    Exchange,  // over another axis than tp
    Add,       // onto the residual stream `onto`
    Loss,      // this rank's columns of the softmax of some tokens
    Join,      // join_softmax
  };
  Kind kind = Kind::Norm;
  std::string block;  // "embedding", "layers.3.attn", "layers.3.mlp", "head"
  std::string in, out;
  std::string onto;                 // "": none
  std::vector<std::string> params;  // weight first
  TensorMove move;                  // Enter, Leave, Join, Exchange
};

// What a stage is given, does and leaves, over tp, cp and ep. Pure data: check_flow checks it, the
// traffic over tp is counted from it.
struct StageFlow {
  struct Tensor {
    std::string name;
    Placement placement;  // over tp
  };
  Placement residual;  // of the input and the output of every block
  int cp = 1, ep = 1;  // ranks of these axes
  std::vector<FlowStep> steps;
  std::vector<Tensor> inputs;   // given
  std::vector<Tensor> outputs;  // what is left, and how it must lie
};
StageFlow stage_flow(const ModelSpec& model, const StageSpec& stage, const StageShape& shape);

// What one micro-batch moves between the tp ranks, in some order: in F of training, in B and in W
// (together they are BW, but that recomputes once).
struct StageMoves {
  std::vector<TensorMove> forward;
  std::vector<TensorMove> recompute;  // before B, and again before W where that is apart
  std::vector<TensorMove> backward_input;
  std::vector<TensorMove> backward_weight;
};
StageMoves stage_moves(const StageFlow& flow, Recompute recompute);

// Every tensor's placement fits the step that reads it, every addend is summed exactly once, and
// the layouts (param_layouts) say of every parameter's gradient whether it is an addend. The first
// violation names tensor, axis and block.
Status check_flow(const StageFlow& flow, const std::vector<ParamLayout>& layouts);

// The same for every tp rank of a stage, and that their parts make up every parameter.
Status check_placements(const ModelSpec& model, const StageSpec& stage, StageShape shape);

}  // namespace trireme
