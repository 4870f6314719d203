#pragma once

#include "cli/plan_command.h"

namespace trireme {

// `plan --search alpa`: every op chooses its role, and every stage its mesh.
bool searches_by_op(const PlanOptions& options);
// Refuses a search that does not exist, and options that look at one layout of all ops.
Status check_search(const PlanOptions& options);
// Prints the plan, draws it into the file of --graph, and writes the configuration that trains by
// it into the file of --out.
Result<int> run_search_by_op(const PlanOptions& options, const RunConfig& config, HostFacts host,
                             const Hardware& hardware, CommandIo& io);

}  // namespace trireme
