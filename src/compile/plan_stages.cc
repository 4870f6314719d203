#include "compile/plan_stages.h"

#include <fmt/format.h>

#include "compile/stage_cost.h"

namespace trireme {

Result<std::vector<StageSpec>> plan_stages(const RunPlan& plan, int num_stages) {
  if (plan.layers_of_stage.empty()) return split_stages(plan, num_stages);
  if (plan.layers_of_stage.size() != size_t(num_stages)) {
    return infeasible(fmt::format("the layers of {} stages are stated, and the schedule has {}",
                                  plan.layers_of_stage.size(), num_stages));
  }
  std::vector<StageSpec> stages;
  int64_t first_layer = 0;
  for (const int64_t num_layers : plan.layers_of_stage) {
    const bool is_first = stages.empty();
    const bool is_last = int(stages.size()) == num_stages - 1;
    stages.push_back({first_layer, num_layers, is_first, is_last});
    first_layer += num_layers;
  }
  if (first_layer != plan.model.layers) {
    return infeasible(fmt::format("the stated stages have {} layers, and the model has {}",
                                  first_layer, plan.model.layers));
  }
  return stages;
}

}  // namespace trireme
