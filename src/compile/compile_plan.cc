#include "compile/compile_plan.h"

#include <utility>

#include "compile/compile_rank.h"
#include "compile/rank_classes.h"
#include "compile/shape_for_mesh.h"
#include "program/check_ranks.h"
#include "program/lookahead.h"
#include "schema/sum_tree_rules.h"

namespace trireme {
namespace {

// Sums that are joined across ranks must be nodes of the canonical tree.
Status check_layout_tree(const RunPlan& plan) {
  const auto problems = sum_tree_problems(plan.config, plan.num_microbatches);
  return problems.empty() ? Status(Done{}) : Status(infeasible(problems.front().message()));
}

// Sets how many forwards of the next step run before Validate. It is none at ZeRO levels 1 and 2,
// whose parameters are gathered after Validate, none in fp16, where the loss scale of the next step
// is known only then, and none where places differ.
void set_num_ahead(RunPlan& plan) {
  if (plan.shape.compute == DType::F16 || plan.mesh.is_uneven()) return;
  const RankPlan& front = plan.pipeline.front();
  if (!front.post_validates || front.zero.level == 1 || front.zero.level == 2) return;
  std::vector<const Program*> programs;
  for (const RankPlan& rank : plan.pipeline) programs.push_back(&rank.program);
  const std::vector<int> num_ahead = leading_forwards(plan.schedule, programs);
  for (RankPlan& rank : plan.pipeline) rank.num_ahead = num_ahead[size_t(rank.coords.pp)];
}

// Fills in what all ranks of a plan share: shape, schedule and stages.
Status lay_out_pipeline(RunPlan& plan, PlanParts& parts) {
  shape_for_mesh(plan);
  TRIREME_TRY(schedule, parts.schedule(plan));
  plan.schedule = std::move(schedule);
  TRIREME_TRY_DONE(check_layout_tree(plan));
  plan.shape.split_backward = false;
  for (const Program& program : plan.schedule.programs) {
    plan.shape.split_backward = plan.shape.split_backward || splits_backward(program);
  }
  TRIREME_TRY(stages, parts.stages(plan, num_stages(plan.schedule)));
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const StageShape shape = plan.shape_at(plan.place_of(int(stage)));
    TRIREME_TRY_DONE(parts.check_placements(plan.model, stages[stage], shape));
  }
  plan.stages = std::move(stages);
  return Done{};
}

}  // namespace

Status outline_pipeline(RunPlan& plan, PlanParts& parts) {
  // With memory.recompute = "fit" the schedule and the stages do not depend on the values that are
  // chosen, so that the memory of one plan says what the others need.
  const uint64_t again = std::exchange(plan.shape.again, 0);
  Status laid_out = lay_out_pipeline(plan, parts);
  plan.shape.again = again;
  if (!laid_out.ok()) return laid_out;
  plan.norm_chunks = parts.norm_chunks(plan);
  plan.pipeline.clear();
  for (int pp = 0; pp < plan.mesh.pp; ++pp) {
    plan.pipeline.push_back(outline_rank(plan, position_of(plan.mesh, {.pp = pp})));
  }
  return Done{};
}

void compile_outlined_rank(RunPlan& plan, int pp, PlanParts& parts) {
  RankPlan& rank = plan.pipeline[size_t(pp)];
  rank = compile_rank(plan, rank.position, &parts);
}

void plan_pipeline_memory(RunPlan& plan) {
  set_num_ahead(plan);
  for (RankPlan& rank : plan.pipeline) plan_rank_memory(rank, plan);
}

// The first rank of a class does the same as the rank of its stage in the pipeline, so its memory
// is the memory of the class.
void plan_class_memory(RunPlan& plan, PlanParts& parts) {
  classify_ranks(plan, parts);
  for (RankClass& alike : plan.classes) {
    if (alike.same_memory_as >= 0) {
      alike.memory = plan.classes[size_t(alike.same_memory_as)].memory;
      continue;
    }
    const RankPlan& of_stage = plan.pipeline[size_t(coords_of(plan.mesh, alike.first).pp)];
    if (of_stage.position == alike.first) {
      alike.memory = of_stage.memory;
      continue;
    }
    const RankPlan rank = rank_plan(plan, alike.first, &parts);
    const std::vector<Problem> problems = check_peer(plan.schedule, plan.mesh, rank, of_stage);
    TRIREME_CHECK(problems.empty(), explain(plan.schedule, {rank}, problems.front()));
    alike.memory = rank.memory;
  }
}

void compile_outlined(RunPlan& plan, PlanParts& parts) {
  for (int pp = 0; pp < plan.mesh.pp; ++pp) compile_outlined_rank(plan, pp, parts);
  plan_pipeline_memory(plan);
  plan_class_memory(plan, parts);
}

Status compile_plan(RunPlan& plan) {
  PlanParts parts;
  TRIREME_TRY_DONE(outline_pipeline(plan, parts));
  compile_outlined(plan, parts);
  const std::vector<Problem> problems =
      check_ranks(plan.schedule, plan.mesh, plan.pipeline, plan.mode);
  TRIREME_CHECK(problems.empty(), explain(plan.schedule, plan.pipeline, problems.front()));
  return Done{};
}

}  // namespace trireme
