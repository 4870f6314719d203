#pragma once

namespace trireme {

// What mpirun or srun says of the job that this process belongs to.
struct Launch {
  int ranks = 0;  // 0: nobody has launched this process
  int rank = 0;
  int ranks_on_host = 0;
  bool is_first() const { return rank == 0; }
};

}  // namespace trireme
