#include "graph/param_table.h"

#include "graph/axis_part.h"
#include "graph/model_graphs.h"
#include "graph/stage_params.h"

namespace trireme {
namespace {

Shape shape_of(const Param& param, const ModelShard& shard) {
  const int64_t rows = part_of(param.rows, shard).count;
  return param.is_matrix() ? Shape{rows, part_of(param.columns, shard).count} : Shape{rows};
}

std::vector<ParamSpec> table_of(const ModelSpec& model, const StageSpec& stage,
                                const ModelShard& shard) {
  std::vector<ParamSpec> table;
  for_each_param(model, stage, shard, [&](int unit, const Graph& graph, const Param& param) {
    const bool is_of_layer = graph.unit.starts_with("layers.") || param.name.starts_with("mtp.");
    table.push_back({full_name(graph, param), shape_of(param, shard), param.init, param.stddev,
                     param.value, param.is_matrix(), param.adjoins_previous, param.balance_rate,
                     param.running_rate, param.expert, unit, param.name == kTokenTable,
                     is_of_layer && param.is_matrix(), param.is_trained, param.is_adapter,
                     param.logit_side});
  });
  return table;
}

}  // namespace

std::string full_name(const Graph& unit, const Param& param) {
  const bool is_layer = unit.unit.starts_with("layers.");
  return is_layer ? unit.unit + "." + param.name : param.name;
}

std::vector<ParamSpec> param_table(const ModelSpec& model, const StageSpec& stage) {
  return table_of(model, stage, shard_model(model, {}));
}

std::vector<ParamSpec> local_param_table(const ModelSpec& model, const StageSpec& stage,
                                         const StageShape& shape) {
  return table_of(model, stage, shard_model(model, shape));
}

int64_t num_params(const ModelSpec& model) {
  int64_t total = 0;
  for (const ParamSpec& param : param_table(model, whole_model(model))) {
    total += param.shape.num_elements();
  }
  return total;
}

int64_t num_trained_params(const ModelSpec& model) {
  int64_t total = 0;
  for (const ParamSpec& param : param_table(model, whole_model(model))) {
    if (param.is_trained) total += param.shape.num_elements();
  }
  return total;
}

int64_t num_active_params(const ModelSpec& model) {
  const int64_t idle = model.has_experts() ? model.experts - model.top_k : 0;
  return num_params(model) - model.num_expert_layers() * idle * 3 * model.d_ff * model.d_model;
}

}  // namespace trireme
