#pragma once

#include <string>
#include <vector>

#include "memory/tensor_table.h"
#include "memory/unit_memory.h"

namespace trireme {

// Units that are alike, such as neighbouring layers of one kind, differ in their names alone.
struct UnitKind {
  Graph graph;  // fused
  Keep kept;
  UnitMemory memory;
};

struct TensorPlace {
  Space space = Space::None;  // Saved, WeightGrad or Scratch
  std::string name;           // in the table of the stage
};

// One unit of a stage, and where the tensors lie that it shares with the units beside it.
struct StageUnit {
  int kind = 0;
  std::string name;          // "embedding", "layers.3", "head"
  std::string param_prefix;  // of its parameters' names: "layers.3.", else ""
  std::string prefix;        // likewise of its tensors' names
  TensorPlace input, output, input_grad, output_grad;

  TensorPlace place(Space space, const std::string& name_inside) const;
  TensorPlace place(const Stored& matrix) const { return place(matrix.space, matrix.tensor); }
};

// The units of a stage in the order of F, with their graphs and memory. The tables of a stage are
// made from this, and the stage that computes is bound by it.
struct StageUnits {
  std::vector<UnitKind> kinds;
  std::vector<StageUnit> units;
  const UnitKind& kind_of(const StageUnit& unit) const { return kinds[size_t(unit.kind)]; }
};
StageUnits stage_units(const ModelSpec& model, const StageSpec& stage, const StageShape& shape);

// The output of the last layer of a stage: what a stage sends to the next one.
inline constexpr const char* kStageOutput = "y_TC";
// The input of its first layer, or of the head: what it receives, and whose gradient it sends back.
std::string stage_input_name(const StageSpec& stage);

}  // namespace trireme
