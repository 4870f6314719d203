#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "memory/stage_tables.h"
#include "memory/stage_units.h"
#include "nn/frame.h"
#include "nn/quantized_weight.h"
#include "nn/slice_sum.h"
#include "nn/slot_memory.h"

namespace trireme {

// What all ops of a stage are bound with; borrowed while they are bound.
struct StageBinding {
  const ModelShard& model;
  const StageShape& shape;
  const StageTables& tables;
  char* scratch = nullptr;
  uint64_t seed = 0;
  bool has_head = false;  // the stage ends the model
  bool trains = true;     // false: forward alone; there are no gradients
};

// The places that B uses for the gradient of an input: dest = addend + own part.
struct InputGradAt {
  MatrixAt dest, addend;
};

// The gradient of a run of trained matrices (or vectors) that adjoin each other. `row` is the run's
// first row among all adjoining rows.
struct MatrixGradPart {
  int64_t row = 0;
  MatrixAt grad;
};
struct VectorGradPart {
  int64_t row = 0;
  TensorAt grad;
};

// The places of one op's tensors. Legend: as the op's body.
class OpBinding {
 public:
  // `tied_params` finds the table of the embedding where another unit of the stage owns it.
  OpBinding(const StageBinding& stage, const UnitKind& kind, const StageUnit& unit, size_t op,
            Frame params, Frame tied_params)
      : stage_(stage), kind_(kind), unit_(unit), op_(op), params_(params), tied_(tied_params) {}

  const Graph& graph() const { return kind_.graph; }
  const Op& op() const { return kind_.graph.ops[op_]; }
  const OpMemory& memory() const { return kind_.memory.ops[op_]; }
  const ModelShard& model() const { return stage_.model; }
  const StageShape& shape() const { return stage_.shape; }
  const Value& output_value() const { return value(op().outputs.front()); }

  MatrixAt at(const Stored& matrix) const;
  MatrixAt input(size_t i = 0) const { return at(memory().inputs[i]); }
  MatrixAt output() const { return at(memory().all_outputs); }
  MatrixAt output_grad() const { return at(memory().all_output_grads); }
  MatrixAt input_grad(size_t i = 0) const { return at(memory().input_grads[i].dest); }
  MatrixAt input_grad_addend(size_t i = 0) const { return at(memory().input_grads[i].addend); }
  TensorAt tokens() const;  // the input of the first unit, int32 [T]
  // A tensor of the op (op_tensors), or absent.
  TensorAt tensor(const std::string& name_inside) const;
  MatrixAt matrix_of(const std::string& name_inside) const;
  // The same of a tensor that the head has once for each module that looks ahead.
  TensorAt of_module(const char* name) const { return tensor(prefix_of_module(op()) + name); }
  MatrixAt matrix_of_module(const char* name) const {
    return matrix_of(prefix_of_module(op()) + name);
  }
  // Scratch, whose place does not change from call to call.
  Frame scratch() const { return {stage_.tables.scratch, stage_.scratch}; }

  // The op's matrix, or the matrices that adjoin it as one.
  MatrixRef weight() const { return weight(first_param(true)); }
  MatrixAt weight_grad() const { return weight_grad(first_param(true)); }
  MatrixRef weight(ParamId first) const;
  // Returns the same matrix if generation holds it in bytes; else nothing.
  QuantizedWeight quantized_weight() const;
  MatrixAt weight_grad(ParamId first) const;
  // The gradients of those that are trained of the matrices that adjoin the first one, or of the
  // op's vectors.
  std::vector<MatrixGradPart> matrix_grad_parts(ParamId first) const;
  std::vector<VectorGradPart> vector_grad_parts() const;
  // Its vectors whose name ends so, as one; absent where the model has none.
  TensorRef vector(const std::string& ending = "") const;
  TensorAt vector_grad(const std::string& ending = "") const;
  // True if another op adds to the same gradient of the parameter before this one: a later op of
  // the unit, because gradients flow back, or the head, which reads the table of the embedding.
  bool adds_to_grad(ParamId id) const;
  // The first parameter that is a matrix, or a vector; -1: there is none.
  ParamId first_param(bool is_matrix, const std::string& ending = "") const;
  bool is_trained(ParamId id) const { return param(id).is_trained; }

  RngKey key_of(const std::string& site) const {
    return rng_key(stage_.seed, unit_.param_prefix + site);
  }
  // A sum over so many slices of this rank (OpSlices); 0: the product makes it as one.
  SliceSum slice_sum(int num_slices) const { return {std::max(num_slices, 1), scratch()}; }

 private:
  const Value& value(ValueId id) const { return kind_.graph.values[size_t(id)]; }
  const Param& param(ParamId id) const { return kind_.graph.params[size_t(id)]; }
  std::string name_of(ParamId id) const { return unit_.param_prefix + param(id).name; }
  int64_t rows_of(ParamId id) const;
  // Rows of a parameter and of those that adjoin it.
  int64_t adjoining_rows(ParamId first) const;
  // Visits the runs of trained ones among these: visit(row, rows, first parameter of the run).
  template <typename Visit>
  void for_each_trained_run(ParamId first, Visit&& visit) const;
  // A tied table lies with the embedding; its gradient too, unless every use has its own.
  bool is_tied(ParamId id) const;
  const Frame& frame_of(ParamId id) const { return is_tied(id) ? tied_ : params_; }

  const StageBinding& stage_;
  const UnitKind& kind_;
  const StageUnit& unit_;
  size_t op_;
  Frame params_, tied_;
};

}  // namespace trireme
