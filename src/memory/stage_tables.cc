#include "memory/stage_tables.h"

#include "base/check.h"
#include "memory/leaf_sums.h"

namespace trireme {
namespace {

// Tensors of all units; what several units share, or need one after the other, is listed once.
void add_once(TensorTable& table, const std::string& name, const Shape& shape, DType dtype) {
  if (!table.contains(name)) {
    table.add(name, shape, dtype);
    return;
  }
  const TensorSpec& known = table.at(name);
  TRIREME_CHECK(known.shape == shape && known.dtype == dtype, name + " has two shapes");
}

TensorTable& table_of(StageTables& tables, Space space) {
  return space == Space::Saved        ? tables.saved
         : space == Space::WeightGrad ? tables.weight_grad
                                      : tables.scratch;
}

void add_tensors(StageTables& tables, const StageUnits& units, bool constant) {
  for (const StageUnit& unit : units.units) {
    for (const UnitTensor& tensor : units.kind_of(unit).memory.tensors) {
      if (tensor.is_constant != constant) continue;
      const TensorPlace place = unit.place(tensor.space, tensor.name);
      add_once(table_of(tables, place.space), place.name, tensor.shape, tensor.dtype);
    }
  }
}

// Adds the tensors that neighbouring units share, and samples, which come from outside.
void add_ends(StageTables& tables, const StageUnits& units, const ModelShard& shard,
              const StageShape& shape) {
  const DType compute = shape.compute;
  const TokenCounts tokens(shard, shape);
  for (const DocumentTensor& tensor : document_tensors(tokens, shape)) {
    tables.saved.add(tensor.name, tensor.shape, DType::I32);
  }
  for (const StageUnit& unit : units.units) {
    const auto add = [&](const TensorPlace& place, const Shape& extents, DType dtype) {
      add_once(table_of(tables, place.space), place.name, extents, dtype);
    };
    const UnitMemory& memory = units.kind_of(unit).memory;
    const bool is_first = !memory.input, is_head = !memory.output;
    if (is_first) {
      add(unit.input, Shape{tokens.sequences * shard.sample_words() / shard.chunks.cp}, DType::I32);
    } else {
      add(unit.input, memory.input.shape(), compute);
    }
    // A stage that ends with the head has the head's input in the place of an output.
    add(unit.output, (is_head ? memory.input : memory.output).shape(), compute);
    if (!is_first) add(unit.input_grad, memory.input.shape(), compute);
    if (!is_head) add(unit.output_grad, memory.output.shape(), compute);
  }
}

}  // namespace

bool takes_muon(const ParamSpec& param, const OptimizerStateSpec& state) {
  return state.muon && param.is_hidden_matrix && param.is_trained;
}

TensorTable optimizer_table(const std::vector<ParamSpec>& params, DType compute,
                            const OptimizerStateSpec& state) {
  TensorTable table;
  const auto add = [&](const std::string& prefix, DType dtype, auto&& is_kept) {
    for (const ParamSpec& param : params) {
      if (is_kept(param)) table.add(prefix + param.name, param.shape, dtype);
    }
  };
  // A parameter that is never trained needs no second copy as its master.
  const auto trained = [](const ParamSpec& param) { return param.is_trained; };
  const auto has_second = [&](const ParamSpec& param) {
    return trained(param) && !takes_muon(param, state);
  };
  if (state.has_master(compute)) add("master/", DType::F32, trained);
  if (state.exp_avg) add("exp_avg/", state.moment, trained);
  if (state.exp_avg_sq) add("exp_avg_sq/", state.moment, has_second);
  return table;
}

StageTables stage_tables(const ModelSpec& model, const StageSpec& stage, const StageShape& shape) {
  StageTables tables = stored_tables(model, stage, shape);
  add_activations(tables, stage_units(model, stage, shape), shard_model(model, shape), shape);
  return tables;
}

StageTables stored_tables(const ModelSpec& model, const StageSpec& stage, const StageShape& shape) {
  StageTables tables;
  const ModelShard shard = shard_model(model, shape);
  const std::vector<ParamSpec> params = local_param_table(model, stage, shape);
  bool previous_is_trained = false;
  for (const ParamSpec& param : params) {
    tables.params.add(param.name, param.shape, shape.compute, param.adjoins_previous);
    const bool adjoins = param.adjoins_previous && previous_is_trained;
    previous_is_trained = param.is_trained;
    if (param.is_trained) tables.grads.add(param.name, param.shape, shape.grad, adjoins);
  }
  const bool tied_here = model.trains_tied_table() && stage.has_embedding && stage.has_head;
  if (tied_here && shape.tied_use_apart) {
    tables.grads.add("embedding.tokens@head", Shape{shard.vocab_size, model.d_model}, shape.grad);
  }
  tables.optimizer = optimizer_table(params, shape.compute, shape.optimizer_state);
  return tables;
}

void add_activations(StageTables& tables, const StageUnits& units, const ModelShard& shard,
                     const StageShape& shape) {
  add_tensors(tables, units, true);  // first: at the same place in every chunk of a rank
  add_ends(tables, units, shard, shape);
  add_tensors(tables, units, false);
  add_leaf_sums(tables.scratch, units, shard, shape);
}

}  // namespace trireme
