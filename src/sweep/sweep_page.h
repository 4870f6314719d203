#pragma once

#include <string>
#include <vector>

#include "sweep/sweep_record.h"
#include "sweep/trial_curve.h"

namespace trireme {

// The place where a sweep ran. With it, the command of the page runs from any folder. All paths are
// absolute.
struct SweepPlace {
  std::string folder;      // of the sweep
  std::string program;     // trireme
  std::string started_in;  // paths of configurations are relative to it
};

// Returns sweep.html: curves of all trials in one chart, the loss against every swept key, and the
// table of the points; of a range test the loss against the rate. `curves` has one curve for each
// trial.
std::string sweep_page(const SweepRecord& record, const std::vector<TrialCurve>& curves,
                       const SweepPlace& place);

}  // namespace trireme
