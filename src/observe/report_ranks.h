#pragma once

#include <string>
#include <vector>

#include "observe/summary.h"
#include "predict/predict.h"
#include "train/engine.h"
#include "train/trace.h"

namespace trireme {

// A rank that reports show in full, and why it was chosen.
struct ShownRank {
  int rank = 0;
  std::string why;
};

// Chooses the ranks to show, sorted by rank number: all ranks if there are at most 16; else the
// slowest, the fastest and the median by compute time, those named in `chosen` ("3,17"), and the
// first rank of each pipeline stage until the page is full.
std::vector<ShownRank> shown_ranks(const std::vector<RankMeasurement>& measured,
                                   const RunPlan& plan, const std::string& chosen);

// The inputs for the timelines and memory maps of single ranks.
struct RankViews {
  const RunPlan& plan;
  const Hardware& hardware;
  const Predictions& predictions;                // only on rank 0
  const std::vector<RankMeasurement>& measured;  // empty if no step has run
};

// Returns ranks.json on rank 0 and "" on other ranks. Every rank calls it and sends its trace,
// converted to one common clock.
std::string gather_ranks_json(const RankViews& views, Engine& engine, const StepTrace& trace);

}  // namespace trireme
