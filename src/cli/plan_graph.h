#pragma once

#include "cli/plan_command.h"

namespace trireme {

// `plan --graph [FILE]`: the graphs of the model's units, with the extents and placements of one
// rank, before and after each pass.

// Refuses a FILE whose ending names no format, and text beside JSON on standard output.
Status check_graph_options(const PlanOptions& options);

// Whether the graphs are what the command prints.
bool prints_graph(const PlanOptions& options);

// Writes FILE, or prints text; nothing without --graph.
Status write_graph(const PlanOptions& options, const RunPlan& plan, CommandIo& io);

}  // namespace trireme
