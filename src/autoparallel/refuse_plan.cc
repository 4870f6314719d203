#include "autoparallel/refuse_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "autoparallel/cluster_stages.h"
#include "autoparallel/plan_search.h"
#include "base/units.h"

namespace trireme {

Error refuse_plan(const PlannedRun& run) {
  const int64_t sequences = microbatch_sizes(run).front();
  StageSearch search(run, sequences);
  const double whole = search.least_bytes(0, run.num_units() - 1, run.num_ranks, 1);
  const double layer = search.least_bytes(1, 1, run.num_ranks, 1);
  double least_bytes = run.memory_bytes;
  for (int rank = 0; rank < run.num_ranks; ++rank) {
    least_bytes = std::min(least_bytes, memory_of_device(run, run.hardware.device_of(rank)));
  }
  const std::string has =
      fmt::format("a rank has {}{}", run.hardware.is_mixed() ? "as little as " : "",
                  format_bytes(int64_t(least_bytes)));
  // All ranks can share the model out, so enough memory would be enough.
  if (whole < kImpossible) {
    return infeasible(fmt::format(
        "no plan fits: memory binds. On {} ranks the whole model needs {} {} on each ({} of "
        "it for one layer) with micro-batches of {} {}{}, and {}; use more ranks, "
        "memory.recompute = \"full\", a smaller model or {}",
        run.num_ranks, whole > least_bytes ? "at least" : "more than", format_bytes(int64_t(whole)),
        format_bytes(int64_t(layer)), sequences, run.model.reads_images() ? "image" : "sequence",
        sequences == 1 ? "" : "s", has,
        run.model.reads_images() ? "smaller images" : "shorter sequences"));
  }
  return infeasible(fmt::format(
      "no plan fits: {} ranks cannot share the model out by whole sequences, heads, hidden units "
      "and experts so that every stage fits, and {}; use a number of ranks whose factors divide "
      "them, more sequences in a batch, or memory.recompute = \"full\"",
      run.num_ranks, has));
}

}  // namespace trireme
