#include "compile/plan_parts.h"

#include <utility>

#include "compile/auto_schedule.h"
#include "compile/plan_stages.h"
#include "graph/check_placed.h"
#include "program/check.h"
#include "program/make_schedule.h"
#include "program/pairs.h"
#include "program/send_recv.h"

namespace trireme {
namespace {

// A rank that shares its layers with no other has no transfers inside them, so a pair would hide
// nothing.
bool runs_pairs(const RunPlan& plan) {
  const Mesh& mesh = plan.mesh;
  return plan.config.parallel.pair && mesh.tp * mesh.cp * mesh.ep > 1;
}

// The number of chunks per rank is the configured one, or else the schedule's default.
Result<Schedule> named_schedule(const RunPlan& plan) {
  const ParallelConfig& parallel = plan.config.parallel;
  const ScheduleShape shape{parallel.pp, int(plan.num_microbatches), parallel.chunks};
  TRIREME_TRY(schedule, make_schedule(name_of(parallel.schedule), shape));
  const auto unpair_all = [&](Pairs pairs) {
    for (Program& program : schedule.programs) program = unpair(program, pairs);
  };
  if (!runs_pairs(plan)) unpair_all(Pairs::Apart);
  schedule = add_send_recv(schedule);
  unpair_all(Pairs::Beside);
  return schedule;
}

// The stages with the tp degrees of their places. Stages that follow each other with equal degrees
// are one.
std::vector<std::pair<StageSpec, int>> runs_of_equal_tp(const RunPlan& plan) {
  std::vector<std::pair<StageSpec, int>> runs;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StageSpec& own = plan.stages[stage];
    const int tp = plan.mesh.tp_at(plan.place_of(int(stage)));
    if (runs.empty() || runs.back().second != tp) {
      runs.emplace_back(own, tp);
      continue;
    }
    runs.back().first.num_layers += own.num_layers;
    runs.back().first.has_head = own.has_head;
  }
  return runs;
}

Result<Schedule> checked_schedule(const RunPlan& plan) {
  const bool is_auto = plan.config.parallel.schedule == ScheduleKind::Auto;
  TRIREME_TRY(schedule, is_auto ? auto_schedule(plan) : named_schedule(plan));
  const std::vector<Problem> problems = check(schedule);
  TRIREME_CHECK(problems.empty(), explain(schedule, problems.front()));
  return schedule;
}

}  // namespace

Result<Schedule> PlanParts::schedule(const RunPlan& plan) {
  const ParallelConfig& parallel = plan.config.parallel;
  if (parallel.schedule == ScheduleKind::Auto) return checked_schedule(plan);  // depends on prices
  const Asked asked{parallel.schedule, parallel.pp, parallel.chunks, plan.num_microbatches,
                    runs_pairs(plan)};
  if (const auto cached = schedules_.find(asked); cached != schedules_.end()) return cached->second;
  Result<Schedule> schedule = checked_schedule(plan);
  if (!schedule.ok()) return schedule;
  size_t actions = 0;
  for (const Program& program : schedule->programs) actions += program.size();
  if (num_actions_ + actions > kMostActions) {
    schedules_.clear();
    num_actions_ = 0;
  }
  if (actions <= kMostActions) {
    schedules_.emplace(asked, *schedule);
    num_actions_ += actions;
  }
  return schedule;
}

std::shared_ptr<const NormChunks> PlanParts::norm_chunks(const RunPlan& plan) {
  const std::vector<std::pair<StageSpec, int>> runs = runs_of_equal_tp(plan);
  std::shared_ptr<const NormChunks>& cached = norm_chunks_[runs];
  if (cached == nullptr) cached = std::make_shared<const NormChunks>(plan.model, plan.shape, runs);
  return cached;
}

Status PlanParts::check_placements(const ModelSpec& model, const StageSpec& stage,
                                   const StageShape& shape) {
  const std::tuple alike(shape.tp, shape.cp, shape.ep, content_of(model, stage));
  if (placed_.contains(alike)) return Done{};
  TRIREME_TRY_DONE(trireme::check_placements(model, stage, shape));
  placed_.insert(alike);
  return Done{};
}

Result<std::vector<StageSpec>> PlanParts::stages(const RunPlan& plan, int num_stages) {
  const bool is_usual = plan.layers_of_stage.empty() && !plan.mesh.is_uneven();
  if (!is_usual) return plan_stages(plan, num_stages);
  const std::tuple key(num_stages, plan.shape.micro_sequences, plan.shape.recompute);
  const auto known = stages_.find(key);
  if (known != stages_.end()) return known->second;
  return stages_.emplace(key, plan_stages(plan, num_stages)).first->second;
}

const ChunkTables& PlanParts::uncut(const RunPlan& plan, const StageSpec& stage,
                                    const StageShape& shape) {
  const int64_t bucket_bytes = plan.config.parallel.bucket_bytes;
  const std::tuple key(stage, shape, bucket_bytes);
  const auto known = uncut_.find(key);
  if (known != uncut_.end()) return known->second;
  if (num_tensors_ > kMostTensors) {
    uncut_.clear();
    num_tensors_ = 0;
  }
  ChunkTables chunk = uncut_chunk(plan.model, stage, shape, bucket_bytes);
  num_tensors_ += chunk.params.size();
  return uncut_.emplace(key, std::move(chunk)).first->second;
}

}  // namespace trireme
