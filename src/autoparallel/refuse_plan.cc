#include "autoparallel/refuse_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "autoparallel/cluster_stages.h"
#include "autoparallel/plan_search.h"
#include "base/units.h"

namespace trireme {

Error refuse_plan(const PlannedRun& run) {
  StageSearch search(run, microbatch_sizes(run).front());
  const double whole = search.least_bytes(0, run.num_units() - 1, run.num_ranks, 1);
  const double layer = search.least_bytes(1, 1, run.num_ranks, 1);
  double least_bytes = run.memory_bytes;
  for (int rank = 0; rank < run.num_ranks; ++rank) {
    least_bytes = std::min(least_bytes, memory_of_device(run, run.hardware.device_of(rank)));
  }
  const std::string has =
      fmt::format("a rank has {}{}", run.hardware.is_mixed() ? "as little as " : "",
                  format_bytes(int64_t(least_bytes)));
  if (whole < kImpossible && whole > least_bytes) {
    return infeasible(fmt::format(
        "no plan fits: memory binds. On {} ranks the whole model needs at least {} on each ({} of "
        "it for one layer) with micro-batches of {} sequences, and {}; use more ranks, "
        "memory.recompute = \"full\", a smaller model or shorter sequences",
        run.num_ranks, format_bytes(int64_t(whole)), format_bytes(int64_t(layer)),
        microbatch_sizes(run).front(), has));
  }
  return infeasible(fmt::format(
      "no plan fits: {} ranks cannot share the model out by whole sequences, heads, hidden units "
      "and experts so that every stage fits, and {}; use a number of ranks whose factors divide "
      "them, more sequences in a batch, or memory.recompute = \"full\"",
      run.num_ranks, has));
}

}  // namespace trireme
