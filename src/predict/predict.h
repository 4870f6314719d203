#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/run_plan.h"
#include "compile/unit_price.h"
#include "predict/collective_bytes.h"
#include "predict/price_schedule.h"
#include "schema/hardware.h"
#include "sim/simulate.h"

namespace trireme {

// Traffic is counted by these axes: those of the mesh, the exchange between all ranks, and the
// offload file.
inline constexpr std::array<std::string_view, 7> kTrafficAxes = {"dp", "tp",    "pp",  "cp",
                                                                 "ep", "world", "file"};

// Seconds of a step, by what they are spent on.
struct StepTimes {
  double compute = 0.0;  // includes data and optimizer
  double exposed_comm = 0.0;
  double bubble = 0.0;
  double step = 0.0;
  double data = 0.0;
  double optimizer = 0.0;
  std::array<double, kTrafficAxes.size()> exposed = {};  // exposed_comm of each axis
};

// Payload bytes that a rank sends in one step, by axis. "file" counts reads and writes of the file
// of memory.offload.
using AxisBytes = std::vector<std::pair<std::string, int64_t>>;
int64_t bytes_on_axis(const AxisBytes& traffic,
                      std::string_view axis);  // 0 if the axis is not there

struct RankPrediction {
  StepTimes time;
  AxisBytes traffic;
};

// Ranks of one class of the plan that also send the same number of bytes over every axis. They all
// have the same memory, traffic and time.
struct PredictedClass {
  int first = 0;  // lowest position in the mesh
  int num_ranks = 0;
  RankPrediction prediction;
};

// Predictions for all ranks.
struct Predictions {
  std::vector<PredictedClass> classes;  // sorted by their first ranks
  std::vector<int> class_of;            // [mesh position] index in classes

  const RankPrediction& at(int position) const {
    return classes[size_t(class_of[size_t(position)])].prediction;
  }
  double step_s() const;  // of the slowest rank
};

// Returns what one rank sends in a step: the transfers of its program and the collectives that the
// runtime runs for its other actions. Ranks of one node share memory.
AxisBytes predict_traffic(const RunPlan& plan, const RankPlan& rank, const NodeMap& nodes);
// Returns what the rank sends for some of its actions.
AxisBytes predict_traffic(const RunPlan& plan, const RankPlan& rank,
                          std::span<const Action> actions, CollectiveBytes& collective_bytes);

// Simulates the schedule of one pipeline with the prices of its stages, up to Step.
Result<Simulation> simulate_plan(const RunPlan& plan, const Hardware& hardware);

// Returns the step times of the ranks of each stage, [pp]: the simulated schedule, the update, and
// the part of the collectives that nothing hides. On a mixed cluster those of the rank of the stage
// that takes longest, for it waits for the others or they wait for it.
std::vector<StepTimes> predict_stages(const RunPlan& plan, const Hardware& hardware);
// Does the same for a schedule that has already been simulated with the prices of the plan's units.
// On a mixed cluster as if every part were computed on the device that is fastest at it; `prices`
// are then those of the slowest devices, behind whose computation transfers are hidden.
std::vector<StepTimes> predict_stages(const RunPlan& plan, const PlanPrices& prices,
                                      const PricedSchedule& priced, const Hardware& hardware,
                                      CollectiveBytes& collective_bytes);

// The same for the ranks of the stage of one compiled rank.
StepTimes predict_stage(const RunPlan& plan, const RankPlan& rank, const PlanPrices& of_places,
                        const PricedSchedule& priced, const Hardware& hardware,
                        CollectiveBytes& collective_bytes);

// Seconds of the update of a rank, and of what no kernel accounts for.
double predict_update(const RunPlan& plan, const RankPlan& rank, const Hardware& hardware);

// Predicts times and traffic of all ranks.
Predictions predict_ranks(const RunPlan& plan, const Hardware& hardware);

// Step time of the slowest rank.
double predicted_step_s(const RunPlan& plan, const Hardware& hardware);

}  // namespace trireme
