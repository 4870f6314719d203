#pragma once

#include <tuple>
#include <vector>

#include "planner/layout_choice.h"
#include "predict/price_schedule.h"

// The layouts among which the search still has to choose, and their simulated schedules.
namespace trireme {

// A layout and the bounds of its time and of the memory of its largest rank.
struct Candidate {
  LayoutChoice layout;
  double least_s = 0.0;
  int64_t least_bytes = 0;
  int64_t index = 0;
  uint64_t again = 0;             // with memory.recompute = "fit" the cheapest values that may fit
  int mesh = 0;                   // number of its mesh, for all orders of which it stands
  int offload = 0;                // number of its choice of memory.offload
  bool has_any_exchange = false;  // it stands for all the exchanges of its mesh
  bool is_even = false;           // its bound of time is the looser one, LayoutBounds::even_step_s
};

// The exchanges and orders for which a candidate of one mesh stands.
struct MeshChoices {
  std::vector<LayerExchange> exchanges;
  std::vector<MeshOrder> orders;
};

// True if a comes after b: the candidate with the lowest bound is taken first.
bool comes_after(const Candidate& a, const Candidate& b);

// Exchanges of one mesh at most, so that every layout has an index of its own.
inline constexpr int64_t kMostExchanges = 8;

// The simulated schedule of a layout with a set of values that are computed again. It is the same
// for every ZeRO level.
struct Simulated {
  double makespan_s = 0.0;
  std::vector<double> saved_bytes;  // [pp]
};
using SimulatedKey = std::tuple<int, int, int, int, int, MeshOrder, ScheduleKind, int, int64_t,
                                Recompute, LayerExchange, uint64_t>;

SimulatedKey simulated_key(const LayoutChoice& layout, uint64_t again);
Simulated summary_of(const Simulation& simulation);

// The schedule of a layout in one of the orders of its mesh.
struct OrderedSchedule {
  MeshOrder order;
  int number = 0;  // of the order
  PricedSchedule schedule;
};

}  // namespace trireme
