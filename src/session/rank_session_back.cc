// A job goes back to an older checkpoint than the newest one: the younger ones may hold wrong
// results, or each run that has resumed from them has failed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "session/rank_session.h"
#include "session/wrong_checkpoints.h"

namespace trireme {

// Returns the step of the youngest checkpoint that may be resumed; INT64_MAX: any may. All ranks
// call it before they choose a checkpoint.
Result<int64_t> RankSession::agree_on_latest_step(const MemoryResume& memory) {
  if (!options_.order || options_.order->clean_step < 0) return INT64_MAX;
  const int64_t latest_step = options_.order->clean_step;
  int64_t has_older = memory.newest_step_before(latest_step + 1) >= 0 ? 1 : 0;
  if (is_first() && newest_checkpoint_before(checkpoint_roots(options_), latest_step + 1) >= 0) {
    has_older = 1;
  }
  world_.group().monitored_barrier();
  world_.group().broadcast({&has_older, DType::I64, Shape{1}}, 0);
  if (has_older != 0) return latest_step;
  if (options_.order->must_go_back != 0) {
    return Error{ErrorKind::Damaged,
                 fmt::format("the run cannot go back, because no checkpoint of step {} or earlier "
                             "is left; each start from a later one has failed",
                             latest_step)};
  }
  tell(
      fmt::format("no checkpoint is of step {} or earlier, in which all ranks were right: the "
                  "newest one is resumed, and may hold wrong results",
                  latest_step));
  return INT64_MAX;
}

// If the ranks fail, their agent must know from which checkpoint they have resumed.
void RankSession::show_resumed(int64_t step, const MemoryResume& memory) const {
  if (!is_first() || options_.link == nullptr) return;
  JobPage& page = options_.link->page();
  page.resumed_step = step;
  page.older_step = std::max(memory.newest_step_before(step),
                             newest_checkpoint_before(checkpoint_roots(options_), step));
  page.resumed_epoch = options_.place->epoch;
}

// All ranks call it when they have resumed from an older checkpoint. Those on disk get another
// name; those in memory are removed, as all of them are at the end of the job.
void RankSession::set_later_aside(int64_t latest_step, int64_t resumed_step) {
  if (is_first()) {
    const WrongCheckpoints wrong =
        set_wrong_checkpoints_aside(checkpoint_roots(options_), latest_step);
    const std::string renamed = fmt::format("{}", fmt::join(wrong.renamed, ", "));
    const bool must_go_back = options_.order->must_go_back != 0;
    if (must_go_back) {
      tell(
          fmt::format("the run goes back to step {}, because each start from a later checkpoint "
                      "has failed{}",
                      resumed_step, renamed.empty() ? "" : "; set aside: " + renamed));
    } else if (!renamed.empty()) {
      tell(
          fmt::format("{} may hold wrong results, because all ranks were right only until step {}: "
                      "the run goes back to step {}",
                      renamed, latest_step, resumed_step));
    }
    if (!wrong.kept.empty()) tell(warning_about_kept(wrong));
  }
  world_.group().monitored_barrier();
  remove_wrong_checkpoints(options_.memory_folder, latest_step);
  world_.group().monitored_barrier();
}

}  // namespace trireme
