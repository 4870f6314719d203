#include "planner/plan_goodput.h"

#include <algorithm>

#include "planner/checkpoint_bytes.h"
#include "predict/predict.h"

namespace trireme {
namespace {

// The copy reads and writes each byte, in device memory, or crosses the link to the host if that is
// known.
double copy_seconds(double bytes, const Hardware& hardware) {
  return hardware.offload_bytes_per_s > 0.0 ? bytes / hardware.offload_bytes_per_s
                                            : 2.0 * bytes / hardware.memory_bytes_per_s;
}

}  // namespace

PlannedSaves planned_saves(const RunPlan& plan, const Hardware& hardware) {
  PlannedSaves saves{.step_s = predicted_step_s(plan, hardware),
                     .checkpoint_bytes = checkpoint_bytes(plan).saved};
  saves.copy_s = copy_seconds(double(saves.checkpoint_bytes) / double(plan.num_ranks()), hardware);
  return saves;
}

Result<GoodputQuestion> goodput_question(const RunPlan& plan, const Hardware& hardware,
                                         const FailureRates& rates, double days) {
  const PlannedSaves saves = planned_saves(plan, hardware);
  const CheckpointConfig& checkpoint = plan.config.checkpoint;
  // A run that chooses its intervals has none that is configured.
  const auto steps = [](int64_t every) { return double(std::max<int64_t>(0, every)); };
  GoodputQuestion question{.rates = rates,
                           .devices = plan.num_ranks(),
                           .days = days,
                           .step_s = saves.step_s,
                           .memory_save_s = saves.copy_s,
                           .has_memory_tier = wants_memory_checkpoints(plan.config),
                           .disk_interval_s = steps(checkpoint.every) * saves.step_s,
                           .memory_interval_s = steps(checkpoint.memory_every) * saves.step_s};
  if (rates.save_s > 0.0) {
    question.disk_save_s = rates.save_s;
    return question;
  }
  if (rates.storage_bytes_per_s <= 0.0) {
    return usage(
        "--failures: the rates say neither rates.save_s nor rates.storage_bytes_per_s, so that "
        "nobody knows how long a save takes: add one of them");
  }
  const double write_s = double(saves.checkpoint_bytes) / rates.storage_bytes_per_s;
  question.disk_save_s = saves.copy_s;
  (checkpoint.asynchronous ? question.disk_delay_s : question.disk_save_s) += write_s;
  return question;
}

}  // namespace trireme
