#pragma once

#include <string>

#include "compile/run_plan.h"
#include "planner/needed_bytes.h"

namespace trireme {

// The memory that the plans of a search may need. At most one of the two limits is set: that of
// each rank comes from memory.limit_bytes, that of all ranks together from the memory of their
// hosts.
class MemoryLimit {
 public:
  MemoryLimit(const RunConfig& config, const HostFacts& host, int num_ranks);

  bool allows(const NeededBytes& needed) const;
  // The bytes to which the limit applies.
  int64_t limited(const NeededBytes& needed) const;
  NeededBytes bytes() const { return bytes_; }  // 0: no limit
  std::string text() const;                     // such as "16.0 GiB"
  // True if the ranks have the memory of one machine together.
  bool is_of_machine() const { return is_of_machine_; }

 private:
  NeededBytes bytes_;
  bool is_of_machine_;
};

}  // namespace trireme
