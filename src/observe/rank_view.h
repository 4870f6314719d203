#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "predict/predict.h"

namespace trireme {

inline constexpr size_t kMostRanks = 16;  // that a page shows one by one

// The tensors of regions, each table once however many ranks have it.
class TensorTables {
 public:
  int add(const TensorTable& table);
  nlohmann::ordered_json json() const;

 private:
  std::map<std::string, int> found_;
  std::vector<std::string> tables_;
};

// A program with the times of its actions, as the pages draw it.
nlohmann::ordered_json timeline_view(const Program& program, const std::vector<Span>& spans,
                                     int num_chunks);

// What pages show of a rank's plan: its place in the mesh, its actions, when they are simulated to
// run (`simulation` null: not), and the map of its memory.
nlohmann::ordered_json rank_view(const RunPlan& plan, const RankPlan& rank,
                                 const Simulation* simulation, const StepTimes& times,
                                 TensorTables& tables);

}  // namespace trireme
