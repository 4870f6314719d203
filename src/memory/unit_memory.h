#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/keep.h"
#include "graph/model_shard.h"
#include "graph/op_tensors.h"

namespace trireme {

// Which of a stage's tables a tensor lies in; or that the unit shares it with its neighbours.
enum class Space : uint8_t {
  None,
  Saved,
  WeightGrad,
  Scratch,
  Input,  // of the unit: what the unit before writes
  Output,
  InputGrad,
  OutputGrad,
};

// A matrix inside a tensor: all its rows, and `cols` columns from `column` on. The name is that
// inside the unit. Without a space the matrix is absent.
struct Stored {
  Space space = Space::None;
  std::string tensor;
  DType dtype = DType::F32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t column = 0;
  int64_t stride = 0;  // columns of the whole tensor
  explicit operator bool() const { return space != Space::None; }
  friend bool operator==(const Stored&, const Stored&) = default;
};

// B writes the gradient of an input like this: dest = addend + own part. Without a destination the
// gradient is that of the output itself, or none flows.
struct InputGrad {
  Stored dest;
  Stored addend;
};

// Where the values of one op of a fused graph and their gradients lie. Where nothing is gathered,
// summed or dropped, the tensors before and after it are the same.
struct OpMemory {
  std::vector<Stored> inputs;
  std::vector<Stored> outputs;
  Stored all_outputs;     // side by side
  Stored gathered_input;  // the first input behind Op::enter
  Stored partial;         // the output before Op::leave
  Stored early_residual;
  Stored late_residual;
  std::vector<Stored> output_grads;
  Stored all_output_grads;
  Stored dropped_grad;         // the output's gradient behind dropout
  Stored gathered_grad;        // that, for all tokens
  Stored gathered_input_grad;  // of the first input, before the sum that Op::enter asks for
  std::vector<InputGrad> input_grads;
};

struct UnitTensor {
  Space space = Space::None;
  std::string name;
  Shape shape;
  DType dtype = DType::F32;
  bool is_constant = false;  // lies at the same place in the scratch of every chunk
  bool is_gradient = false;  // not used in F
};

// A matrix between two units.
struct UnitBorder {
  int64_t rows = 0;
  int64_t cols = 0;
  bool is_stream = true;  // the residual stream, which has this shape at every border
  Shape shape() const { return {rows, cols}; }
  // A rank may have no row of a border.
  explicit operator bool() const { return cols > 0; }
};

// All memory of a unit that is no parameter, derived from its graph and from what it keeps.
struct UnitMemory {
  std::vector<OpMemory> ops;  // [op]
  std::vector<UnitTensor> tensors;
  Stored copied_input_grad;  // present: not yet in InputGrad, where the unit before reads it
  // The matrices that the unit reads and writes. A first unit has no input here, because the stage
  // lists its samples; a head has no output.
  UnitBorder input, output;
};

// Nothing lies before the first unit of a model: no gradient flows out of it, and its whole
// backward pass is W.
UnitMemory unit_memory(const Graph& fused, const ModelShard& shard, const StageShape& shape,
                       const Keep& kept, bool is_first);

}  // namespace trireme
