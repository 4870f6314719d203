#pragma once

#include <vector>

#include "program/check.h"
#include "spec/program.h"

namespace trireme {

// Of every rank of one pipeline ([p] programs, all passes run), how many leading actions may run
// for the next step before this one's Validate: forward passes, gathers, and transfers whose other
// end is among them, so that all ranks can drop what they have done and begin again.
std::vector<int> leading_forwards(const Schedule& schedule,
                                  const std::vector<const Program*>& programs);

// "ahead": the leading actions of each rank are such.
std::vector<Problem> check_ahead(const Schedule& schedule,
                                 const std::vector<const Program*>& programs,
                                 const std::vector<int>& num_ahead);

}  // namespace trireme
