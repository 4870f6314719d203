#include "comm/mpi/mpi_world.h"

namespace trireme {

Status run_mpi_rank(const WorldOptions&, const std::function<void(World&)>&) {
  return Error{ErrorKind::Usage,
               "run.backend = \"mpi\" needs a binary built with MPI; install libopenmpi-dev and "
               "build again, or use run.backend = \"local\""};
}

bool has_mpi() { return false; }

}  // namespace trireme
