#pragma once

#include <vector>

#include "program/check.h"
#include "schema/program.h"

namespace trireme {

// Returns for every rank of one pipeline ([p] programs after all passes) how many leading actions
// of the next step may run before this step's Validate. They are forward passes, gathers, and
// transfers whose other end is also among them, so all ranks can drop this work and start again.
std::vector<int> leading_forwards(const Schedule& schedule,
                                  const std::vector<const Program*>& programs);

// Rule "ahead": the leading actions of each rank can be dropped.
std::vector<Problem> check_ahead(const Schedule& schedule,
                                 const std::vector<const Program*>& programs,
                                 const std::vector<int>& num_ahead);

}  // namespace trireme
