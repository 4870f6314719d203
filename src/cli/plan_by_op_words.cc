#include "cli/plan_by_op_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "autoparallel/cluster_stages.h"
#include "base/units.h"

namespace trireme {

std::string units_text(const PlannedRun& run, int first, int count) {
  const int last = first + count - 1;
  const bool has_embedding = first == 0, has_head = last == run.num_units() - 1;
  const int first_layer = std::max(first, 1) - 1,
            last_layer = std::min(last, run.num_units() - 2) - 1;
  std::string text = has_embedding ? "embedding" : "";
  if (last_layer >= first_layer) {
    text += fmt::format("{}layers {} to {}", text.empty() ? "" : ", ", first_layer, last_layer);
  }
  if (has_head) text += text.empty() ? "head" : ", head";
  return text;
}

RanksOfStage ranks_of_stage(const PlannedRun& run, int first_rank, int num_ranks) {
  RanksOfStage ranks{"", run.memory_bytes};
  int before = -1;
  for (int rank = first_rank; rank < first_rank + num_ranks && run.hardware.is_mixed(); ++rank) {
    const int device = run.hardware.device_of(rank);
    if (device == before) continue;
    before = device;
    ranks.devices += ranks.devices.empty() ? "" : " and ";
    ranks.devices += run.hardware.all_of_device(device).name;
    ranks.memory_bytes = std::min(ranks.memory_bytes, memory_of_device(run, device));
  }
  ranks.devices += run.hardware.nodes().text(first_rank, first_rank + num_ranks - 1);
  return ranks;
}

std::string memory_text(const StagePlan& stage, const RanksOfStage& ranks) {
  const std::string needs = format_bytes(int64_t(stage.bytes));
  if (ranks.memory_bytes == kImpossible) return needs;
  return needs + " of " + format_bytes(int64_t(ranks.memory_bytes));
}

std::string sharding_text(const UnitWay& way) {
  std::string text = fmt::format("ZeRO {}", zero_level_of(way.sharding));
  if (way.recompute != Recompute::None) {
    text += fmt::format(", recompute {}", name_of(way.recompute));
  }
  return text;
}

std::string unit_text(const OpGroups& groups, const PlacedUnits& units) {
  const bool is_layer = groups.graph().unit.starts_with("layers.");
  return is_layer ? fmt::format("{} layer{}", units.count, units.count == 1 ? "" : "s")
                  : groups.graph().unit;
}

bool are_alike(const StagePlan& a, const StagePlan& b) {
  if (a.mesh != b.mesh || a.stream != b.stream || a.units.size() != b.units.size()) return false;
  for (size_t u = 0; u < a.units.size(); ++u) {
    const PlacedUnits &x = a.units[u], &y = b.units[u];
    if (x.kind != y.kind || x.count != y.count || x.way.roles != y.way.roles ||
        x.way.recompute != y.way.recompute || x.way.sharding != y.way.sharding) {
      return false;
    }
  }
  return true;
}

}  // namespace trireme
