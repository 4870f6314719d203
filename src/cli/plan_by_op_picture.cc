#include <fmt/format.h>

#include "base/units.h"
#include "cli/plan_by_op_words.h"
#include "cli/search_by_op.h"

namespace trireme {
namespace {

DrawnUnit drawn_unit(const OpGroups& groups, const PlacedUnits& units, const StageMesh& mesh) {
  DrawnUnit drawn{unit_text(groups, units), sharding_text(units.way), {}};
  for (size_t g = 0; g < units.way.roles.size(); ++g) {
    const std::string roles = to_string(units.way.roles[g], mesh);
    const std::string& name = groups.groups()[g].name;
    if (!drawn.ops.empty() && drawn.ops.back().roles == roles) {
      drawn.ops.back().names += " " + name;
    } else {
      drawn.ops.push_back({name, roles});
    }
  }
  return drawn;
}

}  // namespace

StagesPicture plan_by_op_picture(const PlanByOp& found) {
  const FoundPlan& best = found.search.best;
  StagesPicture picture;
  picture.title =
      fmt::format("plan by op for {} ranks of {}", found.run.num_ranks, found.run.hardware.name);
  picture.lines = {fmt::format("step {}, MFU {:.1f} %; 1f1b, {} micro-batches of {} sequences",
                               format_seconds(best.step_s), 100.0 * found.mfu(best.step_s),
                               best.num_microbatches, best.sequences)};
  if (found.uniform) {
    picture.lines.push_back(fmt::format("{:.1f} % less time than the best uniform plan ({})",
                                        100.0 * found.gain(),
                                        format_seconds(found.uniform->found.step_s)));
  }
  picture.num_ranks = found.run.num_ranks;
  picture.nodes = found.run.hardware.nodes();
  const StageSearch names(found.run, best.sequences);
  int rank = 0;
  for (size_t s = 0; s < best.stages.size(); ++s) {
    const StagePlan& stage = best.stages[s];
    DrawnStage& drawn = picture.stages.emplace_back();
    drawn.units = units_text(found.run, stage.first_unit, stage.num_units);
    const RanksOfStage ranks = ranks_of_stage(found.run, rank, stage.num_ranks);
    drawn.figures =
        fmt::format("ranks {} to {} ({}){}, {} a micro-batch, {}", rank, rank + stage.num_ranks - 1,
                    to_string(stage.mesh), ranks.devices.empty() ? "" : " of " + ranks.devices,
                    format_seconds(stage.seconds), memory_text(stage, ranks));
    drawn.first_rank = rank;
    drawn.num_ranks = stage.num_ranks;
    drawn.seconds = stage.seconds;
    drawn.memory_share = stage.bytes / ranks.memory_bytes;
    drawn.is_like_before = s > 0 && are_alike(best.stages[s - 1], stage);
    for (const PlacedUnits& units : stage.units) {
      drawn.kinds.push_back(drawn_unit(names.groups(units.kind), units, stage.mesh));
    }
    rank += stage.num_ranks;
  }
  return picture;
}

}  // namespace trireme
