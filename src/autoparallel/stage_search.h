#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "autoparallel/stage_plan.h"
#include "compile/run_plan.h"
#include "schema/hardware.h"

namespace trireme {

// A search of plans knows this about a run. The layout is what it looks for.
struct PlannedRun {
  ModelSpec model;
  StageShape base;  // dtypes, optimizer, context exchange
  Hardware hardware;
  int num_ranks = 1;
  int64_t global_sequences = 1;
  double memory_bytes = 0.0;  // of a rank
  std::vector<Recompute> recomputes = {Recompute::None};
  // The configuration and the host whose rules a plan must keep to run (refuse_run).
  RunConfig config = {};
  HostFacts host = {};

  // Units are counted in the order of the model: the embedding, the layers, the head.
  int num_units() const { return int(model.layers) + 2; }
};

// Finds the best plan of any stage, for micro-batches of one size. Layers that compute the same are
// solved once, and all of them take the same way in a stage.
class StageSearch {
 public:
  StageSearch(const PlannedRun& run, int64_t sequences);
  ~StageSearch();

  int64_t num_microbatches() const { return num_microbatches_; }
  const OpGroups& groups(int kind) const;

  // Returns the fastest plan for the units on neighbouring ranks that fits, or nullopt.
  std::optional<StagePlan> best(int first_unit, int last_unit, int num_ranks, int in_flight);
  // Returns its seconds; infinity if none fits.
  double best_seconds(int first_unit, int last_unit, int num_ranks, int in_flight);

  // Returns the fewest bytes of a rank that any plan of the stage needs, for the message of a
  // refusal.
  double least_bytes(int first_unit, int last_unit, int num_ranks, int in_flight);

  // A uniform layout: on one mesh all ops have the same roles, and all units the same recomputation
  // and sharding.
  struct Uniform {
    StageMesh mesh;
    Roles roles = {};
    Recompute recompute = Recompute::None;
    StateSharding sharding = StateSharding::Optimizer;
  };
  std::vector<Uniform> uniforms(int num_ranks) const;
  // Returns a stage of a uniform layout, even if it does not fit; nullopt if some op cannot have
  // its role.
  std::optional<StagePlan> uniform_stage(const Uniform& uniform, int first_unit, int last_unit,
                                         int in_flight);

 private:
  struct Kind;
  struct MeshWays;
  struct Key;
  std::vector<PlacedUnits> counts(int first_unit, int last_unit) const;
  std::vector<MeshWays>& ways(int num_ranks);
  std::vector<UnitWay> ways_of(Kind& kind, const StageMesh& mesh, const MeshPlacement& stream);
  UnitWay way_of(const Kind& kind, const UnitProblem& unit, const Assignment& assignment,
                 const UnitSetting& setting) const;
  const UnitWay* uniform_way(const Uniform& uniform, int kind);

  const PlannedRun& run_;
  int64_t sequences_;
  int64_t num_microbatches_;
  std::vector<LayerRun> layer_kinds_;
  std::vector<std::unique_ptr<Kind>> kinds_;  // embedding, kinds of layers, head, tied head
  std::map<int, std::vector<MeshWays>> ways_;
  // (kind of unit, degrees, rows and roles of both dims, recomputation, sharding)
  using UniformKey = std::tuple<int, int, int, Role, Role, Role, Role, Recompute, StateSharding>;
  std::map<UniformKey, std::optional<UnitWay>> uniform_ways_;
};

}  // namespace trireme
