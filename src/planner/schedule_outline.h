#pragma once

#include <vector>

#include "planner/layout_choice.h"
#include "schema/model_spec.h"
#include "schema/program.h"

namespace trireme {

// Returns where every chunk is placed, without the programs.
Schedule schedule_outline(const LayoutChoice& layout);

// Number of layers of all chunks of a rank, and of its smallest one. `stages` are those of the
// pipeline, first to last.
double layers_of(const Schedule& schedule, int rank, const std::vector<StageSpec>& stages);
double least_layers_of_chunk(const Schedule& schedule, int rank,
                             const std::vector<StageSpec>& stages);

}  // namespace trireme
