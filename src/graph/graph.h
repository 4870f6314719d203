#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/axis.h"
#include "schema/image_window.h"
#include "schema/logit_side.h"
#include "schema/mesh.h"
#include "schema/placement.h"
#include "schema/run_config_choices.h"

namespace trireme {

// Indices into a graph's values and parameters.
using ValueId = int;
using ParamId = int;

// Which numbers a value has: those of the run's compute dtype, or a dtype of its own.
enum class Numbers : uint8_t { Compute, F32, I32, U8 };

// How a value lies over the ranks of every axis inside a unit.
struct ValuePlacement {
  Placement tp;
  Placement cp = Placement::shard(0);  // every rank has tokens of its own
  Placement ep = Placement::shard(0);
  Placement& on(MeshAxis axis) {
    return axis == MeshAxis::Tp ? tp : axis == MeshAxis::Cp ? cp : ep;
  }
  Placement on(MeshAxis axis) const {
    return axis == MeshAxis::Tp ? tp : axis == MeshAxis::Cp ? cp : ep;
  }
  friend bool operator==(const ValuePlacement&, const ValuePlacement&) = default;
};

// An edge of the graph: the first dims together count rows, the others together count columns. The
// pass `place` fills in the placement.
struct Value {
  std::string name;
  std::vector<Dim> dims;
  Numbers numbers = Numbers::Compute;
  ValuePlacement placement = {};
  size_t num_row_dims = 1;  // more for images: sample row column

  std::span<const Dim> row_dims() const { return std::span(dims).first(num_row_dims); }
  std::span<const Dim> column_dims() const { return std::span(dims).subspan(num_row_dims); }
  // Rows for each of those that a micro-batch has: pixels of an image, or 1.
  int64_t inner_rows() const {
    int64_t rows = 1;
    for (size_t i = 1; i < num_row_dims; ++i) rows *= dims[i].extent;
    return rows;
  }
};

enum class ParamInit { Normal, Zero, One, Constant };

// A trained parameter. A matrix has rows and columns, a vector rows alone; several axes of one dim
// are flattened, the last one fastest.
struct Param {
  std::string name;  // inside its unit: "attn.wq"
  std::vector<Dim> rows;
  std::vector<Dim> columns;
  ParamInit init = ParamInit::Normal;
  double stddev = 0.0;  // Normal only
  double value = 0.0;   // Constant only
  // Above 0: the parameter is not trained by gradient. Its gradient counts the tokens of every
  // expert, and Step moves it by so much towards an even load.
  double balance_rate = 0.0;
  // Above 0: likewise. Its gradient is the sum of a statistic over micro-batches, and Step moves
  // the parameter by this share of the way towards the mean.
  double running_rate = 0.0;
  int64_t expert = -1;            // the expert to which it belongs, or -1
  bool adjoins_previous = false;  // lies in memory right behind the parameter before it
  bool is_trained = true;         // false: nobody asks for its gradient, and none is computed
  bool is_adapter = false;        // one of the two matrices of an Op::Adapter
  LogitSide logit_side = LogitSide::None;  // a weight or bias of q or k
  bool is_matrix() const { return !columns.empty(); }
};

enum class OpKind : uint8_t {
  Lookup,           // rows of a table by token, plus learned positions
  Norm,             // layer norm or RMS norm, token by token, or of every head by itself
  Linear,           // y = x w^T + b; several parameters stand side by side in y
  GroupedLinear,    // the same for rows that are sorted by expert, each expert with its own weights
  Rope,             // rotary positions
  Concat,           // side by side in every head; an input without heads stands in each of them
  ChooseKeys,       // which keys a query sees (sparse attention)
  Attention,        // causal softmax(q k^T) v, of all keys or of the chosen ones
  LatentAttention,  // the same on latents (absorb.h, latent_ring.h)
  Activation,       // one function of one input, or SwiGLU of gate and up; then optionally weighted
  Dropout,
  Scale,         // every channel times a number of its own
  Add,           // sum of the inputs
  Route,         // scores of every expert for every token
  Count,         // how often every expert is visited
  Choose,        // which experts a token visits and with which weights
  Dispatch,      // rows of tokens, sorted by expert
  Combine,       // rows of experts, added up by token
  SoftmaxParts,  // the vocabulary projection and the softmax over a part of the vocabulary
  CrossEntropy,  // joins the parts; loss of every token
  Pixels,        // bytes of images as numbers
  Convolution,   // every output pixel from a window of pixels
  BatchNorm,     // every channel by its mean and variance over a micro-batch or all of a step
  Pool,          // maximum or mean of a window, channel by channel
  Flatten,       // all numbers of an image side by side
  Redistribute,  // from one placement over the ranks of a mesh axis to another
};
std::string_view name_of(OpKind kind);

// A redistribution over tp at an edge of a product, which is done together with the product.
struct EdgeChange {
  Redistribution change;
  bool in_pieces = false;  // beside the product, piece by piece (parallel.tp_overlap)
};

// The pass `slice` adds this: into how many slices of this rank an op cuts the sums of F (of its
// output) and of B (of the gradient of its input). Where there are slices, outputs that stand side
// by side are summed apart. 0: the product makes the sum as one.
struct OpSlices {
  int forward = 0;
  int backward = 0;
  friend bool operator==(const OpSlices&, const OpSlices&) = default;
};

// LoRA (Hu et al. 2021) beside one of the matrices of a linear op: the output gets
// ModelSpec::lora_scale (x a^T) b^T on top. Both are parameters of the op, too.
struct Adapter {
  size_t output = 0;  // index in Op::outputs
  ParamId a = -1;     // [adapter_rank, columns of x]
  ParamId b = -1;     // [columns of the output, adapter_rank]
};

// A node: what it reads, what it writes, and with which parameters. Redistribute alone has an axis
// and a change.
struct Op {
  OpKind kind = OpKind::Norm;
  std::string name;  // inside its unit: "attn.wo"
  std::vector<ValueId> inputs;
  std::vector<ParamId> params;  // those of adapters last
  std::vector<ValueId> outputs;
  std::vector<Adapter> adapters = {};
  MeshAxis axis = MeshAxis::Tp;
  Redistribution change;
  // A redistribution whose only neighbour is a linear op may run beside its product, piece by piece
  // (parallel.tp_overlap); the parameters are those of that op.
  bool in_pieces = false;
  OpSlices slices = {};

  // What the pass `fuse` joins to a product so that one call does it, in this order: the first
  // input is gathered (enter), the product is added to another addend of the same sum (addend) and,
  // where nothing is dropped, to the residual stream (early_residual); the sum goes back to the
  // residual stream (leave), is dropped (dropout: the site), and only then the residual stream is
  // added (late_residual).
  std::optional<EdgeChange> enter = {};
  ValueId addend = -1;
  ValueId early_residual = -1;
  std::optional<EdgeChange> leave = {};
  std::string dropout = {};
  ValueId late_residual = -1;

  // Lookup, CrossEntropy: how many positions ahead the tokens or the targets lie. The executor
  // fills these in, as it does the targets of every loss.
  int64_t ahead = 0;

  ImageWindow window = {};                  // Convolution, Pool: of one image
  bool averages = false;                    // Pool: the mean, not the maximum
  NormBatch batch = NormBatch::MicroBatch;  // BatchNorm
};

// The computation of one unit of a model: the embedding, a layer or the head. Pure data. Ops stand
// in an order in which they can run.
struct Graph {
  std::string unit;  // "embedding", "layers.3", "head"
  std::vector<Value> values;
  std::vector<Param> params;  // in the order of memory and of checkpoints; adapters last
  std::vector<Op> ops;
  ValueId input = -1;
  ValueId output = -1;
  // A convolution of this unit ("conv1") and one of the unit before it ("layers.2.conv1"), if they
  // have any. Its strategy says how the tp ranks share out the images that the unit makes.
  std::string image_layer = {}, input_image_layer = {};
  std::vector<ValueId> losses_ahead = {};  // of the modules that look ahead; no op reads them
};

// Whether the gradient flows through a value of the graph: tokens, routes and weights of visits
// have none of their own.
bool is_matrix(const Value& value);
// Whether a value of a placed graph is an addend of the residual stream. It lies where the sum is
// made. The addends of experts are combined first.
bool is_addend(const Value& value);
// Whether the op makes a value whole on every tp rank.
bool gathers(const Op& op);
// The op that writes a value, or null for the input of the graph.
const Op* producer_of(const Graph& graph, ValueId value);
// True if the value holds pixels of the samples, redistributed or not: no gradient goes there.
bool is_of_samples(const Graph& graph, ValueId value);
// True if the value has images: its rows are [sample row column].
bool has_images(const Value& value);
// True if each tp rank has some rows of every image: its own ones, or a halo.
bool lies_by_rows(const Value& value);
// Whether an op reads the value in its forward pass.
bool reads(const Op& op, ValueId value);

// "F sums 4 slices"; empty where there are none.
std::string to_string(const OpSlices& slices);
// One line for each op: name, kind, inputs with their axes, parameters, outputs.
std::string to_string(const Graph& graph);

}  // namespace trireme
