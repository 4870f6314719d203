#pragma once

#include "predict/price_schedule.h"

namespace trireme {

// Prices actions that run beside each other (program/pairs.h): sets StageTimes::fb_s of the stages
// whose F stand in pairs, and StageComm::hidden. F and BW take turns at each of their exchanges, so
// each exchange of one travels while the other computes what lies between two exchanges of its own.
// Where only rows of experts travel, these pieces have the prices of their ops, which may differ
// much. Else an action with n exchanges has n + 1 pieces of equal length, and n of them have an
// exchange beside them. What is hidden takes the core for core_s_per_byte.
void price_pairs(const RunPlan& plan, const Hardware& hardware, std::vector<StageComm>& comm,
                 Costs& costs);

}  // namespace trireme
