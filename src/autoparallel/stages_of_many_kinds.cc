#include <algorithm>

#include "autoparallel/stage_search.h"
#include "autoparallel/stage_settings.h"

// The part of StageSearch for models of many kinds of units (docs/autoparallel.md).

namespace trireme {

std::optional<StagePlan> StageSearch::best_of_many_kinds(int first_unit, int last_unit,
                                                         int num_ranks, int in_flight) {
  const StageKnapsack::Choice& choice = choice_of(first_unit, last_unit, num_ranks, in_flight);
  if (choice.mesh < 0) return std::nullopt;
  const std::vector<PlacedUnits> units = counts(first_unit, last_unit);
  const MeshWays& mesh = ways(num_ranks)[size_t(choice.mesh)];
  std::vector<const UnitWay*> chosen;
  for (size_t u = 0; u < units.size(); ++u) {
    chosen.push_back(&mesh.kinds[size_t(units[u].kind)][size_t(choice.ways[u])]);
  }
  return stage_of(units, chosen, mesh.mesh, mesh.stream, in_flight);
}

StageKnapsack& StageSearch::knapsack(int num_ranks) {
  return knapsacks_.try_emplace(num_ranks, ways(num_ranks), run_.memory_bytes, kWaysTolerance)
      .first->second;
}

const StageKnapsack::Choice& StageSearch::choice_of(int first_unit, int last_unit, int num_ranks,
                                                    int in_flight) {
  const auto [known, is_new] = choices_.try_emplace({first_unit, last_unit, num_ranks, in_flight});
  if (!is_new) return known->second;
  const std::vector<PlacedUnits> units = counts(first_unit, last_unit);
  // More micro-batches in flight only need more memory, so a choice that still fits stays the best.
  const auto fewer = choices_.find({first_unit, last_unit, num_ranks, in_flight - 1});
  const bool still_fits =
      fewer != choices_.end() &&
      (fewer->second.mesh < 0 || knapsack(num_ranks).fits(units, fewer->second, in_flight));
  known->second = still_fits ? fewer->second : knapsack(num_ranks).choose(units, in_flight);
  return known->second;
}

SecondsBounds StageSearch::bounds(int first_unit, int last_unit, int num_ranks, int in_flight) {
  const auto [known, is_new] = bounds_.try_emplace({first_unit, last_unit, num_ranks, in_flight});
  if (!is_new) return known->second;
  const std::vector<PlacedUnits> units = counts(first_unit, last_unit);
  known->second = {kImpossible, kImpossible};
  if (rank_seconds_.of(units) > num_ranks * most_stage_s_) return known->second;
  const SecondsBounds found = knapsack(num_ranks).bounds(units, in_flight);
  if (found.lower <= most_stage_s_) known->second = found;
  return known->second;
}

// Redistributions are left out, so all streams have the same bound. Recomputation only adds time.
double StageSearch::least_rank_seconds(Kind& kind, const std::vector<int>& mesh_sizes) {
  const bool may_keep_all =
      std::count(run_.recomputes.begin(), run_.recomputes.end(), Recompute::None) > 0;
  double least = kImpossible;
  for (const int num_ranks : mesh_sizes) {
    for (const StageMesh& mesh : stage_meshes(num_ranks, sequences_)) {
      for (const Recompute recompute : run_.recomputes) {
        if (may_keep_all && recompute != Recompute::None) continue;
        for (const StateSharding sharding : shardings_of(mesh, recompute)) {
          const double seconds =
              least_seconds_of_groups(kind.unit, {.mesh = mesh,
                                                  .recompute = recompute,
                                                  .sharding = sharding,
                                                  .num_microbatches = num_microbatches_,
                                                  .shares_table = kind.shares_table});
          least = std::min(least, num_ranks * seconds);
        }
      }
    }
  }
  return least;
}

// Every stage takes its ranks for its time, and the slowest one sets the pace of all micro-batches.
// So all stages together have ranks x step_s / micro-batches. What a unit takes beyond its least
// rank-seconds must lie in what all units leave of this.
void StageSearch::leave_out_above(double step_s, const std::vector<int>& mesh_sizes) {
  if (!has_many_kinds() || step_s == kImpossible) return;
  std::vector<double>& of_kind = rank_seconds_.of_kind;
  for (const auto& kind : kinds_) of_kind.push_back(least_rank_seconds(*kind, mesh_sizes));
  const size_t head = kinds_.size() - 2;  // and the tied head
  of_kind[head] = of_kind[head + 1] = std::min(of_kind[head], of_kind[head + 1]);
  constexpr double kRounding = 1.0 + 1e-9;
  most_stage_s_ = kRounding * step_s / double(num_microbatches_);
  rank_seconds_.spare =
      run_.num_ranks * most_stage_s_ - rank_seconds_.of(counts(0, run_.num_units() - 1));
}

double StageSearch::RankSeconds::of(const std::vector<PlacedUnits>& units) const {
  double sum = 0.0;
  for (const PlacedUnits& unit : units) {
    if (!of_kind.empty()) sum += unit.count * of_kind[size_t(unit.kind)];
  }
  return spare < 0.0 ? kImpossible : sum;
}

}  // namespace trireme
