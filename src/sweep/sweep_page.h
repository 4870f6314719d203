#pragma once

#include <string>
#include <vector>

#include "sweep/sweep_record.h"
#include "sweep/trial_curve.h"

namespace trireme {

// Returns sweep.html: curves of all trials in one chart, the loss against every swept key, and the
// table of the points; of a range test the loss against the rate. `curves` has one curve for each
// trial. `name` is that of the folder.
std::string sweep_page(const SweepRecord& record, const std::vector<TrialCurve>& curves,
                       const std::string& name);

}  // namespace trireme
