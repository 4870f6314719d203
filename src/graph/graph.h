#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/axis.h"
#include "spec/mesh.h"
#include "spec/placement.h"

namespace trireme {

// Indices into a graph's values and parameters.
using ValueId = int;
using ParamId = int;

// Which numbers a value has: those of the run's compute dtype, or a dtype of its own.
enum class Numbers : uint8_t { Compute, F32, I32 };

// An edge of the graph: the first axis counts rows, the others together count columns.
struct Value {
  std::string name;
  std::vector<Axis> dims;
  Numbers numbers = Numbers::Compute;
};

enum class ParamInit { Normal, Zero, One };

// A trained parameter. A matrix has rows and columns, a vector rows alone; several axes of one dim
// are flattened, the last one fastest.
struct Param {
  std::string name;  // inside its unit: "attn.wq"
  std::vector<Axis> rows;
  std::vector<Axis> columns;
  ParamInit init = ParamInit::Normal;
  double stddev = 0.0;  // Normal only
  // Above 0: the parameter is not trained by gradient. Its gradient counts the tokens of every
  // expert, and Step moves it by so much towards an even load.
  double balance_rate = 0.0;
  int64_t expert = -1;            // the expert to which it belongs, or -1
  bool adjoins_previous = false;  // lies in memory right behind the parameter before it
  bool is_matrix() const { return !columns.empty(); }
};

enum class OpKind : uint8_t {
  Lookup,         // rows of a table by token, plus learned positions
  Norm,           // layer norm or RMS norm, token by token
  Linear,         // y = x w^T + b; several parameters stand side by side in y
  GroupedLinear,  // the same for rows that are sorted by expert, each expert with its own weights
  Rope,           // rotary positions
  Attention,      // causal softmax(q k^T) v
  Activation,     // one function of one input, or SwiGLU of gate and up; then optionally weighted
  Dropout,
  Add,           // sum of the inputs
  Route,         // scores of every expert for every token
  Count,         // how often every expert is visited
  Choose,        // which experts a token visits and with which weights
  Dispatch,      // rows of tokens, sorted by expert
  Combine,       // rows of experts, added up by token
  SoftmaxParts,  // the vocabulary projection and the softmax over a part of the vocabulary
  CrossEntropy,  // joins the parts; loss of every token
  Redistribute,  // from one placement over the ranks of a mesh axis to another
};
std::string_view name_of(OpKind kind);

// A node: what it reads, what it writes, and with which parameters. Redistribute alone has an axis
// and a change.
struct Op {
  OpKind kind = OpKind::Norm;
  std::string name;  // inside its unit: "attn.wo"
  std::vector<ValueId> inputs;
  std::vector<ParamId> params;
  std::vector<ValueId> outputs;
  MeshAxis axis = MeshAxis::Tp;
  Redistribution change;
  // A redistribution whose only neighbour is a linear op may run beside its product, piece by piece
  // (parallel.tp_overlap); the parameters are those of that op.
  bool in_pieces = false;
};

// The computation of one unit of a model: the embedding, a layer or the head. Pure data. Ops stand
// in an order in which they can run.
struct Graph {
  std::string unit;  // "embedding", "layers.3", "head"
  std::vector<Value> values;
  std::vector<Param> params;  // in the order of memory and of checkpoints
  std::vector<Op> ops;
  ValueId input = -1;
  ValueId output = -1;
};

// One line for each op: name, kind, inputs with their axes, parameters, outputs.
std::string to_string(const Graph& graph);

}  // namespace trireme
