#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/plan_command.h"
#include "planner/memory_as.h"
#include "schema/hardware.h"

namespace trireme {

// What another trainer would hold for a plan (`trireme plan --as`).
struct PlanAs {
  TrainerKind trainer = TrainerKind::Megatron;
  std::vector<TrainerMemory> stages;  // [pp]
};

// Our own limits of memory do not count for a plan of another trainer.
void drop_memory_limits(RunConfig& config, HostFacts& host);

// Infeasible if the trainer cannot run the plan, or needs more than `device_bytes` (0: unknown).
Result<PlanAs> plan_as(const std::string& trainer, const RunPlan& plan, int64_t device_bytes);

std::string plan_as_text(const PlanAs& as);
nlohmann::ordered_json plan_as_json(const PlanAs& as);

}  // namespace trireme
