#include "cli/plan_as.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace trireme {
namespace {

struct MemoryRow {
  const char* name;
  double TrainerMemory::*bytes;
};

constexpr MemoryRow kMemoryParts[] = {
    {"params", &TrainerMemory::params},           {"grads", &TrainerMemory::grads},
    {"optimizer", &TrainerMemory::optimizer},     {"blocks", &TrainerMemory::blocks},
    {"activations", &TrainerMemory::activations}, {"logits", &TrainerMemory::logits},
};

size_t greatest_stage(const PlanAs& as) {
  const auto less = [](const auto& a, const auto& b) { return a.total() < b.total(); };
  return size_t(std::max_element(as.stages.begin(), as.stages.end(), less) - as.stages.begin());
}

std::string bytes_text(double bytes) { return format_bytes(int64_t(bytes)); }

Status check_device(const PlanAs& as, int64_t device_bytes) {
  const size_t stage = greatest_stage(as);
  const TrainerMemory& memory = as.stages[stage];
  if (device_bytes <= 0 || memory.total() <= double(device_bytes)) return Done{};
  return infeasible(fmt::format(
      "{} would need {} on the ranks of stage {}, {} of it for activations, and a device has {}; "
      "raise parallel.tp or parallel.pp, or set memory.recompute=full or a lower "
      "batch.micro_sequences",
      name_of(as.trainer), bytes_text(memory.total()), stage, bytes_text(memory.activations),
      bytes_text(double(device_bytes))));
}

}  // namespace

void drop_memory_limits(RunConfig& config, HostFacts& host) {
  config.memory.limit_bytes = 0;
  host.memory_bytes = 0;
}

Result<PlanAs> plan_as(const std::string& trainer, const RunPlan& plan, int64_t device_bytes) {
  PlanAs as;
  TRIREME_TRY(found, trainer_named(trainer));
  as.trainer = found;
  TRIREME_TRY(stages, memory_as(plan, rules_of(found)));
  as.stages = stages;
  TRIREME_TRY_DONE(check_device(as, device_bytes));
  return as;
}

std::string plan_as_text(const PlanAs& as) {
  const size_t stage = greatest_stage(as);
  const TrainerMemory& memory = as.stages[stage];
  std::string text = fmt::format("memory as {} would hold it, on the ranks of stage {}\n",
                                 name_of(as.trainer), stage);
  for (const MemoryRow& part : kMemoryParts) {
    if (memory.*part.bytes <= 0.0) continue;
    text += fmt::format("  {:<22}{:>14}\n", part.name, bytes_text(memory.*part.bytes));
  }
  return text + fmt::format("  {:<22}{:>14}\n", "total", bytes_text(memory.total()));
}

nlohmann::ordered_json plan_as_json(const PlanAs& as) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (size_t pp = 0; pp < as.stages.size(); ++pp) {
    nlohmann::ordered_json stage = {{"pp", pp}};
    for (const MemoryRow& part : kMemoryParts) {
      stage[part.name] = int64_t(as.stages[pp].*part.bytes);
    }
    stage["total"] = int64_t(as.stages[pp].total());
    stages.push_back(stage);
  }
  return {{"trainer", name_of(as.trainer)},
          {"peak", int64_t(as.stages[greatest_stage(as)].total())},
          {"stages", stages}};
}

}  // namespace trireme
