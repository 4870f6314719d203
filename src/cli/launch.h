#pragma once

namespace trireme {

// The job to which mpirun or srun says that this process belongs.
struct Launch {
  int ranks = 0;  // 0: not started by a launcher
  int rank = 0;
  int ranks_on_host = 0;
  bool is_first() const { return rank == 0; }
};

}  // namespace trireme
