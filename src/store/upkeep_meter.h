#pragma once

#include <functional>

#include "store/store.h"

namespace trireme {

// Is called between two blocks of a scrub, a repair or a drain. An error ends the work.
using OnProgress = std::function<Status(const UpkeepProgress&)>;

// Counts the blocks of a scrub, a repair or a drain, and tells the caller and the metadata how far
// the work is.
class UpkeepMeter {
 public:
  // `on_progress` may be empty.
  UpkeepMeter(Store& store, UpkeepKind kind, uint64_t total_blocks, const OnProgress& on_progress);
  // One block more is under way. `bytes`: of the chunks that were read or written so far.
  Status step(int64_t bytes);
  // Some blocks have turned out to need work, too.
  void add_to_total(uint64_t blocks) { progress_.total += blocks; }

 private:
  Store& store_;
  const OnProgress on_progress_;
  const int64_t begin_ns_;
  UpkeepProgress progress_;
};

}  // namespace trireme
