#include "compile/layer_values.h"

#include <algorithm>

#include "base/align.h"
#include "graph/layer_keep.h"
#include "memory/unit_memory.h"

namespace trireme {
namespace {

int64_t aligned_size(const Shape& shape, DType dtype) {
  return aligned_bytes(shape.num_elements() * size_of(dtype));
}

class ValueLister {
 public:
  ValueLister(const RunPlan& plan, const StageShape& shape, int64_t layer)
      : model_(plan.model),
        shape_(shape),
        shard_(shard_model(plan.model, shape)),
        layer_(layer_keep(plan.model, shape, layer)),
        stored_(unit_memory(layer_.fused, shard_, shape, keep(layer_.fused, {}), false)),
        flops_(forward_flops(layer_.fused, plan.model)),
        choice_of_(layer_.fused.ops.size(), -1) {
    choices_ = keep_choices(layer_.fused);
    for (size_t i = 0; i < choices_.size(); ++i) {
      for (const ValueId id : choices_[i].values) {
        choice_of_[size_t(producer_of(layer_.fused, id) - layer_.fused.ops.data())] = int(i);
      }
    }
  }

  std::vector<LayerValue> run() {
    values_.push_back(
        {value_of(layer_.fused.input).name, aligned_size(stored_.input.shape(), shape_.compute)});
    add_always_stored();
    for (const KeepChoice& choice : choices_) add(choice);
    for (size_t op = 0; op < layer_.fused.ops.size(); ++op) {
      if (layer_.kept.runs_again[op] && choice_of_[op] < 0) add_needed(op);
    }
    return std::move(values_);
  }

 private:
  const Value& value_of(ValueId id) const { return layer_.fused.values[size_t(id)]; }

  double flops_of(size_t op) const {
    return double(shape_.micro_sequences * model_.seq_len) * flops_[op].total();
  }
  int64_t bytes_with(const Op& op, Lifetime lifetime) const {
    int64_t bytes = 0;
    for (const OpTensor& tensor : op_tensors(layer_.fused, op, shard_, shape_)) {
      if (tensor.lifetime == lifetime) bytes += aligned_size(tensor.shape, tensor.dtype);
    }
    return bytes;
  }

  // Where tokens go, and under `selective` the statistics of what runs again.
  void add_always_stored() {
    int64_t routes = 0, statistics = 0;
    for (size_t i = 0; i < layer_.fused.ops.size(); ++i) {
      const Op& op = layer_.fused.ops[i];
      routes += bytes_with(op, Lifetime::Kept);
      const bool keeps_anyway = layer_.kept.runs_again[i] && layer_.kept.keeps_statistics[i];
      if (keeps_anyway) statistics += bytes_with(op, Lifetime::Forward);
    }
    if (routes > 0) values_.push_back({"routes", routes});
    if (statistics > 0) values_.push_back({"statistics", statistics});
  }

  void add(const KeepChoice& choice) {
    LayerValue value;
    const size_t writer = size_t(choice.op);
    const Op& op = layer_.fused.ops[writer];
    for (const ValueId id : op.outputs) {
      if (is_matrix(value_of(id)))
        value.name += (value.name.empty() ? "" : " ") + value_of(id).name;
    }
    const std::string& tensor = stored_.ops[writer].all_outputs.tensor;
    for (const UnitTensor& stored : stored_.tensors) {
      if (stored.space == Space::Saved && stored.name == tensor) {
        value.bytes = aligned_size(stored.shape, stored.dtype);
      }
    }
    value.is_again = layer_.kept.fates[size_t(choice.values.front())] == Fate::Again;
    const bool has_statistics = value.is_again != layer_.kept.keeps_statistics[writer];
    if (has_statistics) value.bytes += bytes_with(op, Lifetime::Forward);
    for (size_t i = 0; value.is_again && i < choice_of_.size(); ++i) {
      if (choice_of_[i] >= 0 && choices_[size_t(choice_of_[i])].op == choice.op) {
        value.flops += flops_of(i);
      }
    }
    values_.push_back(std::move(value));
  }

  void add_needed(size_t op) {
    const ValueId output = layer_.fused.ops[op].outputs.front();
    values_.push_back({value_of(output).name, 0, flops_of(op), true});
  }

  const ModelSpec& model_;
  const StageShape& shape_;
  ModelShard shard_;
  LayerKeep layer_;
  UnitMemory stored_;  // where every value is stored
  std::vector<KeepChoice> choices_;
  std::vector<ModelFlops> flops_;  // [op] per token
  std::vector<int> choice_of_;     // [op]: to whose values it writes, -1: to none
  std::vector<LayerValue> values_;
};

}  // namespace

std::vector<LayerValue> layer_values(const RunPlan& plan, int64_t layer) {
  return ValueLister(plan, plan.pipeline.front().shape, layer).run();
}

}  // namespace trireme
