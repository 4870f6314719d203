#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "base/result.h"
#include "compile/run_plan.h"

namespace trireme {

// Caches the parts that plans of one model and configuration share although their layouts differ.
class PlanParts {
 public:
  // Returns the checked schedule of the plan's configuration and batch, with transfers.
  Result<Schedule> schedule(const RunPlan& plan);
  // The functions below need plan.shape.
  std::shared_ptr<const NormChunks> norm_chunks(const RunPlan& plan);
  Status check_placements(const ModelSpec& model, const StageSpec& stage, const StageShape& shape);
  Result<std::vector<StageSpec>> stages(const RunPlan& plan, int num_stages);
  // Returns uncut_chunk for a rank of this shape. The reference is valid until the next call.
  const ChunkTables& uncut(const RunPlan& plan, const StageSpec& stage, const StageShape& shape);

 private:
  static constexpr size_t kMostActions = 2'000'000;  // of all schedules that are kept
  using Asked =
      std::tuple<ScheduleKind, int, int, int64_t, bool>;  // kind, pp, chunks, micro-batches, pairs

  std::map<Asked, Schedule> schedules_;
  size_t num_actions_ = 0;
  // [runs of neighbouring stages with equal tp degrees]
  std::map<std::vector<std::pair<StageSpec, int>>, std::shared_ptr<const NormChunks>> norm_chunks_;
  // [number of stages, micro_sequences, recompute]
  std::map<std::tuple<int, int64_t, Recompute>, Result<std::vector<StageSpec>>> stages_;
  // tp, cp, ep, units of the stage
  std::set<std::tuple<int, int, int, std::vector<int64_t>>> placed_;
  static constexpr size_t kMostTensors = 200'000;  // of all chunks that are kept
  std::map<std::tuple<StageSpec, StageShape, int64_t>, ChunkTables> uncut_;
  size_t num_tensors_ = 0;
};

}  // namespace trireme
