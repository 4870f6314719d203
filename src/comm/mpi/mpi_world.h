#pragma once

#include <functional>

#include "base/result.h"
#include "comm/world.h"

namespace trireme {

// Runs `function` as one rank of a job that mpirun or srun has started: every rank is a process, of
// one host or many. Returns when the function has; throws RankError with the first cause when any
// rank has failed, after which the process must leave with an exit code other than 0 (MPI is not
// finalised, so that the launcher ends the job). Once per process. An Error where this binary was
// built without MPI.
Status run_mpi_rank(const WorldOptions& options, const std::function<void(World&)>& function);

// Whether this binary was built with MPI.
bool has_mpi();

}  // namespace trireme
