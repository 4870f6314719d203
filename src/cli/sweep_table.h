#pragma once

#include <string>

#include "sweep/sweep_record.h"

namespace trireme {

// The trials of a sweep as a table, the best first, and the command that repeats the best; of a
// range test the rates that it suggests.
std::string sweep_text(const SweepRecord& record);

// "trial-003 (optim.lr = 0.001)".
std::string trial_text(const SweepSpec& spec, const SweepTrial& trial, size_t index);
// "finished, validation loss 3.2100".
std::string end_text(const SweepTrial& trial);

}  // namespace trireme
