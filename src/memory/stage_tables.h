#pragma once

#include <string>
#include <vector>

#include "graph/model_shard.h"
#include "graph/param_table.h"
#include "memory/stage_units.h"
#include "memory/tensor_table.h"
#include "schema/model_spec.h"
#include "schema/stage_shape.h"

namespace trireme {

// Every tensor of a stage, by lifetime. The runtime binds its layers to these tables and the
// planner sums them.
struct StageTables {
  TensorTable params;       // compute dtype, the whole run
  TensorTable grads;        // StageShape::grad, per gradient slot
  TensorTable optimizer;    // the whole run: master/NAME in fp32, exp_avg/, exp_avg_sq/
  TensorTable saved;        // per micro-batch, from F to its W
  TensorTable weight_grad;  // per micro-batch, from B to its W (split backward only)
  TensorTable scratch;      // shared by all layers and micro-batches
};

StageTables stage_tables(const ModelSpec& model, const StageSpec& stage, const StageShape& shape);
// The same with the parameters, their gradients and the optimizer state alone.
StageTables stored_tables(const ModelSpec& model, const StageSpec& stage, const StageShape& shape);

// Adds what the units of a stage save and what they need as scratch.
void add_activations(StageTables& tables, const StageUnits& units, const ModelShard& shard,
                     const StageShape& shape);

// Returns true if Muon updates the parameter. It updates the matrices of layers.
bool takes_muon(const ParamSpec& param, const OptimizerStateSpec& state);

TensorTable optimizer_table(const std::vector<ParamSpec>& params, DType compute,
                            const OptimizerStateSpec& state);

}  // namespace trireme
