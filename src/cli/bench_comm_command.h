#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "base/result.h"

namespace trireme {

// `trireme bench comm` after parsing.
struct BenchCommOptions {
  std::string op = "all_reduce";   // --op: all_reduce reduce broadcast scatter gather all_gather
                                   // reduce_scatter all_to_all barrier
  std::string algorithm = "auto";  // --algorithm: also canonical, shared, native (mpi)
  int ranks = 2;                   // --ranks; under mpirun 0 or the size of the job
  int64_t elements = 1024;         // --elements: of the full vector
  std::string dtype = "fp32";      // --dtype: fp32 bf16 int32 int64
  std::string reduction = "sum";   // --reduction: sum mean max min
  std::string backend = "local";   // --backend: local mpi
  int ranks_per_node = 0;          // --ranks-per-node: nodes of hierarchical; 0: as found
  int root = 0;                    // --root
  bool private_memory = false;     // --private: buffers that peers do not reach (mpi)
  bool compare = false;            // --compare: shared, ring, native and the copy limit by size
  bool json = false;               // --json: one object a line
  double timeout_s = 60.0;         // --timeout: deadline of every wait
};

// Runs the collective, verifies its result, times it, and writes rank 0's report to `out` (the
// other ranks of an mpi job write nothing). An Error where a rank failed, the result is wrong or
// the options have no meaning.
Status run_bench_comm(const BenchCommOptions& options, std::ostream& out);

}  // namespace trireme
