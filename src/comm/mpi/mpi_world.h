#pragma once

#include <functional>

#include "base/result.h"
#include "comm/world.h"

namespace trireme {

// Runs `function` as one rank of a job that mpirun or srun has started: every rank is a process, on
// one host or on many. Returns after the function has returned. Throws RankError with the first
// cause if any rank has failed; the process must then exit with a code other than 0, because MPI is
// not finalised and the launcher must end the job. Call it once per process. Returns an Error if
// this binary was built without MPI.
Status run_mpi_rank(const WorldOptions& options, const std::function<void(World&)>& function);

// True if this binary was built with MPI.
bool has_mpi();

}  // namespace trireme
