#include "planner/checkpoint_bytes.h"

#include <algorithm>

#include "base/dtype.h"
#include "memory/stage_tables.h"
#include "schema/optimizer_state.h"

namespace trireme {
namespace {

int64_t bytes_of_param(const ParamSpec& param, const OptimizerStateSpec& state, DType compute) {
  const int64_t master = state.has_master(compute) ? size_of(DType::F32) : size_of(compute);
  const int64_t weight = param.is_trained ? master : size_of(compute);
  if (!param.is_trained) return param.shape.num_elements() * weight;
  const bool has_second = state.exp_avg_sq && !takes_muon(param, state);
  const int64_t moments = int64_t(state.exp_avg) + int64_t(has_second);
  return param.shape.num_elements() * (weight + moments * size_of(state.moment));
}

// Ranks at the place of `rank` that own the same elements of a parameter.
int64_t owners_of(const ParamSpec& param, const RankPlan& rank, const Mesh& mesh) {
  const bool is_of_expert = param.expert >= 0;
  const ZeroShape& zero = is_of_expert ? rank.expert_zero : rank.zero;
  const int64_t along_dp = mesh.dp_at(rank.coords.pp);
  const int64_t holders = along_dp * mesh.cp / (is_of_expert ? mesh.ep : 1);
  return std::max<int64_t>(1, holders / (zero.level > 0 ? zero.degree : 1));
}

}  // namespace

CheckpointBytes checkpoint_bytes(const RunPlan& plan) {
  const OptimizerStateSpec state = optimizer_state_of(plan.config.optim);
  CheckpointBytes bytes;
  for (const ParamSpec& param : param_table(plan.model, whole_model(plan.model))) {
    bytes.saved += bytes_of_param(param, state, plan.shape.compute);
  }
  for (const RankPlan& rank : plan.pipeline) {
    for (const ChunkTables& chunk : rank.chunks) {
      for (const ParamSpec& param : param_table(plan.model, chunk.stage)) {
        bytes.restored +=
            bytes_of_param(param, state, plan.shape.compute) * owners_of(param, rank, plan.mesh);
      }
    }
  }
  return bytes;
}

}  // namespace trireme
