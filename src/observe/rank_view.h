#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "predict/predict.h"

namespace trireme {

inline constexpr size_t kMostRanks = 16;  // a page shows at most so many single ranks

// Collects the tensor tables of regions. Equal tables of several ranks are stored once.
class TensorTables {
 public:
  int add(const TensorTable& table);
  nlohmann::ordered_json json() const;

 private:
  std::map<std::string, int> found_;
  std::vector<std::string> tables_;
};

// A program with the times of its actions, in the form that pages draw.
nlohmann::ordered_json timeline_view(const Program& program, const std::vector<Span>& spans,
                                     int num_chunks);

// Adds to a timeline what follows the schedule, which has ended at `begin_s`: the transfers that
// nothing hides, and Step. The timeline then ends at times.step. When hidden transfers run is not
// known, so they are not drawn.
void add_end_of_step(nlohmann::ordered_json& timeline, double begin_s, const StepTimes& times);

// Returns what pages show of one rank: its place in the mesh, its actions with their simulated
// times (none if `simulation` is null) and the meaning of their codes, and its memory map.
nlohmann::ordered_json rank_view(const RunPlan& plan, const RankPlan& rank,
                                 const Simulation* simulation, const StepTimes& times,
                                 TensorTables& tables);

}  // namespace trireme
