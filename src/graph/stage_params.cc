#include "graph/stage_params.h"

#include <utility>

#include "graph/layer_strategy.h"
#include "graph/model_graphs.h"
#include "graph/stack.h"

namespace trireme {

void for_each_param(
    const ModelSpec& model, const StageSpec& stage, const ModelShard& shard,
    const std::function<void(int unit, const Graph& graph, const Param& param)>& visit) {
  bool has_table = false;
  int unit = -1;
  const auto stacked = [&](Graph unit) {
    return stack(leave_whole(std::move(unit), shard.layers));
  };
  for_each_unit(model, stage, stacked, [&](const Graph& graph, bool) {
    ++unit;
    for (const Param& param : graph.params) {
      if (param.name == kTokenTable && std::exchange(has_table, true)) continue;
      const int64_t held = param.expert - shard.first_expert;
      if (param.expert >= 0 && (held < 0 || held >= shard.held_experts)) continue;
      visit(unit, graph, param);
    }
  });
}

}  // namespace trireme
