#include "planner/shape_for_mesh.h"

#include <fmt/format.h>

#include "graph/model_shard.h"
#include "spec/context_chunks.h"

namespace trireme {
namespace {

// Checks that slices that do not follow tp can be divided among the tp ranks.
Status check_slices(const RunPlan& plan) {
  const int slices = plan.shape.slices;
  if (slices > 0 && plan.config.parallel.sequence) {
    return usage(
        "run.reproducible = \"mesh\" with parallel.sequence = true: gradients of norms would be "
        "summed over micro-batches before tp ranks; set parallel.sequence = false or take "
        "\"layout\"");
  }
  if (slices % plan.mesh.tp == 0) return Done{};
  return usage(fmt::format(
      "run.reproducible = \"mesh\" cuts this model into {} slice{} of heads, kv_heads, d_ff and "
      "vocabulary, which parallel.tp = {} must divide; take a smaller parallel.tp or \"layout\"",
      slices, slices == 1 ? "" : "s", plan.mesh.tp));
}

void set_shape(const RunPlan& plan, StageShape& shape) {
  const ParallelConfig& parallel = plan.config.parallel;
  shape.tied_use_apart =
      plan.mode == AccumulateMode::Layout || (plan.mesh.dp > 1 && parallel.zero >= 2);
  shape.tp = plan.mesh.tp;
  shape.cp = plan.mesh.cp;
  shape.ep = plan.mesh.ep;
  shape.sequence_parallel = parallel.sequence;
  shape.tp_overlap = parallel.tp_overlap;
  shape.context_exchange =
      parallel.context == "ring" ? ContextExchange::Ring : ContextExchange::AllToAll;
}

}  // namespace

std::optional<MeshMisfit> shape_for_mesh(RunPlan& plan) {
  set_shape(plan, plan.shape);
  const bool chunks_fit = ContextChunks::fits(plan.model.seq_len, plan.mesh.cp);
  const std::pair<std::string_view, Status> checks[] = {
      {"parallel.tp", check_tensor_parallel(plan.model, plan.mesh.tp)},
      {"run.reproducible", check_slices(plan)},
      {"parallel.ep", check_expert_parallel(plan.model, plan.mesh.ep)},
      {chunks_fit ? "parallel.context" : "parallel.cp",
       check_context_parallel(plan.model, plan.shape)},
  };
  for (const auto& [key, status] : checks) {
    if (!status.ok()) return MeshMisfit{key, status.error()};
  }
  return std::nullopt;
}

}  // namespace trireme
