#pragma once

#include <string>
#include <vector>

#include "observe/summary.h"
#include "predict/predict.h"
#include "train/engine.h"
#include "train/trace.h"

namespace trireme {

// A rank that reports show in full, and why.
struct ShownRank {
  int rank = 0;
  std::string why;
};

// All ranks where there are few (16); else the slowest, the fastest, those that `chosen` names
// ("3,17"), and the first of each pipeline stage as far as there is room. By rank number.
std::vector<ShownRank> shown_ranks(const std::vector<RankMeasurement>& measured,
                                   const RunPlan& plan, const std::string& chosen);

// What reports show of single ranks: their timelines and the maps of their memory.
struct RankViews {
  const RunPlan& plan;
  const Hardware& hardware;
  const Predictions& predictions;                // on rank 0
  const std::vector<RankMeasurement>& measured;  // empty: none has run
};

// ranks.json on rank 0, "" elsewhere; every rank calls it. Each hands over what it has traced, on
// one clock.
std::string gather_ranks_json(const RankViews& views, Engine& engine, const StepTrace& trace);

}  // namespace trireme
