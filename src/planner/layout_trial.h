#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compile/compile_plan.h"
#include "compile/unit_price_cache.h"
#include "planner/candidate_queue.h"
#include "planner/kept_layouts.h"

namespace trireme {

// Prices the layouts of a search that their bounds have not ruled out, and keeps those that fit.
// Cheap checks come first: the simulated schedule of one pipeline rules out most layouts, and the
// time of its compiled ranks most of the others. The memory of all classes of ranks comes last.
class LayoutTrial {
 public:
  // All of them must outlive the trial.
  LayoutTrial(const SearchTask& task, LayoutBounds& bounds, CandidateQueue& queue,
              KeptLayouts& kept);

  // Tries the layout of a candidate in every order of its mesh. What needs too much memory or has
  // no schedule is refused in the queue.
  void run(const Candidate& candidate);

  int64_t num_simulated() const { return num_simulated_; }

 private:
  bool is_slow_order(const Candidate& candidate, const LayoutChoice& layout);
  bool outline(const Candidate& candidate, RunPlan& plan);
  void try_transfers(Candidate candidate, RunPlan& plan,
                     const std::vector<OrderedSchedule>& schedules);
  std::optional<NeededBytes> try_as_it_is(const Candidate& candidate, LayoutWay way, RunPlan& plan,
                                          const std::vector<OrderedSchedule>& schedules);
  std::optional<NeededBytes> try_to_fit(const Candidate& candidate, LayoutWay way, RunPlan& plan,
                                        const std::vector<OrderedSchedule>& schedules);
  NeededBytes planned_bytes(RunPlan& plan);
  PricedSchedule price(const RunPlan& plan, const LayoutChoice& layout);
  PricedSchedule simulate(RunPlan& plan, const LayoutChoice& layout, uint64_t again);
  bool is_beaten_by_values(const Candidate& candidate, const LayoutChoice& layout, RunPlan& plan,
                           const Simulated& simulated);
  bool recomputes_to_fit(RunPlan& plan);
  bool fits(const Candidate& candidate, const Simulated& simulated);
  bool is_beaten(const LayoutChoice& layout, const Simulated& simulated);
  void offer(const Candidate& candidate, const LayoutWay& way, const RunPlan& plan,
             const StepTimes& time);

  const SearchTask& task_;
  LayoutBounds& bounds_;
  CandidateQueue& queue_;
  KeptLayouts& kept_;
  PlanParts parts_;
  CollectiveBytes collectives_;
  UnitPriceCache prices_;
  int64_t num_simulated_ = 0;
  std::map<SimulatedKey, Simulated> simulated_;
  // Without their timelines and costs, which are large. Layouts that differ in ZeRO alone often
  // follow each other.
  static constexpr size_t kMostSchedules = 2048;
  std::map<SimulatedKey, PricedSchedule> schedules_;
};

}  // namespace trireme
