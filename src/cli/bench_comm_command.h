#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "base/result.h"
#include "schema/node_map.h"

namespace trireme {

// `trireme bench comm` after parsing.
struct BenchCommOptions {
  static constexpr int64_t kUsualElements = 1024;
  // --op: all_reduce, reduce, broadcast, scatter, gather, all_gather, reduce_scatter, all_to_all or
  // barrier
  std::string op = "all_reduce";
  std::string algorithm = "auto";   // --algorithm; also canonical, shared, native (mpi)
  int ranks = 2;                    // --ranks; under mpirun 0 or the size of the job
  std::optional<int64_t> elements;  // --elements of the full vector; default kUsualElements
  std::string dtype = "fp32";       // --dtype: fp32, bf16, int32 or int64
  std::string reduction = "sum";    // --reduction: sum, mean, max or min
  std::string backend = "local";    // --backend: local or mpi
  int ranks_per_node = 0;           // --ranks-per-node for hierarchical; 0: as detected
  int root = 0;                     // --root
  bool private_memory = false;      // --private: buffers that peers cannot access (mpi)
  bool compare = false;  // --compare: shared, ring, native and the copy limit for each size
  // --table: all algorithms for several numbers of ranks; for several sizes, or for --elements
  bool table = false;
  bool json = false;        // --json: one object per line
  double timeout_s = 60.0;  // --timeout: deadline of every wait

  std::optional<NodeMap> nodes() const {
    return ranks_per_node > 0 ? std::optional<NodeMap>(ranks_per_node) : std::nullopt;
  }
};

// Runs the collective, verifies its result, times it, and writes the report of rank 0 to `out`.
// Other ranks of an MPI job write nothing. An Error if a rank failed, the result is wrong or the
// options are invalid.
Status run_bench_comm(const BenchCommOptions& options, std::ostream& out);

}  // namespace trireme
