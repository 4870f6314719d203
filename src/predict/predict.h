#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/run_plan.h"
#include "predict/collective_bytes.h"
#include "predict/price_schedule.h"
#include "sim/simulate.h"
#include "spec/hardware.h"

namespace trireme {

// What traffic is accounted by: the axes of the mesh, what all ranks tell each other, and a file.
inline constexpr std::array<std::string_view, 7> kTrafficAxes = {"dp", "tp",    "pp",  "cp",
                                                                 "ep", "world", "file"};

// Seconds of a step by what they were spent on.
struct StepTimes {
  double compute = 0.0;  // data and optimizer included
  double exposed_comm = 0.0;
  double bubble = 0.0;
  double step = 0.0;
  double data = 0.0;
  double optimizer = 0.0;
  std::array<double, kTrafficAxes.size()> exposed = {};  // exposed_comm by axis
};

// Payload bytes by axis that a rank sends in one step; "file": what it reads from and writes to the
// file of memory.offload.
using AxisBytes = std::vector<std::pair<std::string, int64_t>>;

struct RankPrediction {
  StepTimes time;
  AxisBytes traffic;
};

// Ranks of one class of the plan that also send as many bytes over every axis: each of them has the
// same memory, traffic and time.
struct PredictedClass {
  int first = 0;  // the lowest position in the mesh
  int num_ranks = 0;
  RankPrediction prediction;
};

// What is predicted of all ranks.
struct Predictions {
  std::vector<PredictedClass> classes;  // by their first ranks
  std::vector<int> class_of;            // [mesh position] index in classes

  const RankPrediction& at(int position) const {
    return classes[size_t(class_of[size_t(position)])].prediction;
  }
  double step_s() const;  // of the slowest rank
};

// What one rank sends in a step: its program's transfers, and the collectives that the runtime
// makes of its other actions. Ranks of one node reach each other's memory.
AxisBytes predict_traffic(const RunPlan& plan, const RankPlan& rank, int ranks_per_node);
// The same of some of its actions.
AxisBytes predict_traffic(const RunPlan& plan, const RankPlan& rank, int ranks_per_node,
                          std::span<const Action> actions, CollectiveBytes& known);

// The schedule of one pipeline with the prices of its stages, up to Step.
Result<Simulation> simulate_plan(const RunPlan& plan, const Hardware& hardware);

// [pp] What the ranks of each stage spend: the simulated schedule with the prices of its stages,
// the update, and what nothing hides of the collectives.
std::vector<StepTimes> predict_stages(const RunPlan& plan, const Hardware& hardware);
// The same with a schedule that has been simulated.
std::vector<StepTimes> predict_stages(const RunPlan& plan, const Hardware& hardware,
                                      const PricedSchedule& priced, CollectiveBytes& known);

// The simulated schedule with the prices of its stages, and what the ranks send.
Predictions predict_ranks(const RunPlan& plan, const Hardware& hardware);

// Of the slowest rank.
double predicted_step_s(const RunPlan& plan, const Hardware& hardware);

}  // namespace trireme
