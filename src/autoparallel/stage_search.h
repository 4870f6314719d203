#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "autoparallel/stage_knapsack.h"
#include "autoparallel/unit_problem.h"
#include "compile/run_plan.h"
#include "schema/hardware.h"

namespace trireme {

struct RolePrice;

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

// If a model has more kinds of units, its stages are found by a StageKnapsack.
inline constexpr size_t kMostExactKinds = 4;
// Their units have thousands of ways that differ by fewer bytes than this share; such ways count
// once. The second one is that of a first search, which finds out what is too slow.
inline constexpr double kSameBytes = 0.005, kSameBytesAtFirst = 0.03;

// Finds the best plan of any stage, for micro-batches of one size. Layers that compute the same are
// solved once, and all of them take the same way in a stage.
class StageSearch {
 public:
  // `same_bytes`: see ChoiceLimit; of models of many kinds alone.
  StageSearch(const PlannedRun& run, int64_t sequences, double same_bytes = kSameBytes);
  ~StageSearch();

  int64_t num_microbatches() const { return num_microbatches_; }
  const OpGroups& groups(int kind) const;

  // Returns the fastest plan for the units on neighbouring ranks that fits, or nullopt.
  std::optional<StagePlan> best(int first_unit, int last_unit, int num_ranks, int in_flight);
  // Returns its seconds; infinity if none fits.
  double best_seconds(int first_unit, int last_unit, int num_ranks, int in_flight);

  // True if the times of stages may be above the least ones, by the share kWaysTolerance at most.
  // Then `bounds` are those of the least time, which cost less than best_seconds.
  bool has_many_kinds() const { return layer_kinds_.size() + 2 > kMostExactKinds; }
  SecondsBounds bounds(int first_unit, int last_unit, int num_ranks, int in_flight);
  // If there are many kinds, stages are left out that no plan has whose step is shorter than this.
  // Stages have these numbers of ranks.
  void leave_out_above(double step_s, const std::vector<int>& mesh_sizes);

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

  // See the function of this name (role_prices.h).
  std::vector<std::vector<RolePrice>> role_prices(const StagePlan& stage, size_t unit);

 private:
  struct Kind {
    PricedUnit unit;
    bool shares_table = false;
  };
  // Seconds times the ranks that need them.
  struct RankSeconds {
    std::vector<double> of_kind;  // at least, whatever the mesh and the roles; empty: not known
    double spare = kImpossible;   // that all stages together may take beyond these

    // Returns the least of these units; kImpossible if no plan is fast enough.
    double of(const std::vector<PlacedUnits>& units) const;
  };
  std::vector<PlacedUnits> counts(int first_unit, int last_unit) const;
  const std::vector<MeshWays>& ways(int num_ranks);
  StageKnapsack& knapsack(int num_ranks);
  const StageKnapsack::Choice& choice_of(int first_unit, int last_unit, int num_ranks,
                                         int in_flight);
  double least_rank_seconds(Kind& kind, const std::vector<int>& mesh_sizes);
  std::optional<StagePlan> best_of_few_kinds(const std::vector<PlacedUnits>& units, int num_ranks,
                                             int in_flight);
  std::optional<StagePlan> best_of_many_kinds(int first_unit, int last_unit, int num_ranks,
                                              int in_flight);
  // Returns all settings that a unit may have on a mesh, whatever the residual stream.
  std::vector<UnitSetting> settings_of(const Kind& kind, const StageMesh& mesh) const;
  struct RestOfStage;
  RolePrice price_of_choice(const Kind& kind, const UnitProblem& unit, const UnitSetting& setting,
                            const RestOfStage& rest, int node, int choice) const;
  // Leaves out ways that take more than `most_s`.
  std::vector<std::vector<UnitWay>> ways_of(Kind& kind, const StageMesh& mesh,
                                            const std::vector<MeshPlacement>& streams,
                                            double most_s);
  UnitWay way_of(const Kind& kind, const UnitProblem& unit, const Assignment& assignment,
                 const UnitSetting& setting) const;
  const UnitWay* uniform_way(const Uniform& uniform, int kind);
  std::vector<OpRoles> ops_of(const PlacedUnits& units, const StageMesh& mesh,
                              const MeshPlacement& stream);

  const PlannedRun& run_;
  int64_t sequences_;
  int64_t num_microbatches_;
  std::vector<LayerRun> layer_kinds_;
  double same_bytes_;                         // see ChoiceLimit
  std::vector<std::unique_ptr<Kind>> kinds_;  // embedding, kinds of layers, head, tied head
  std::map<int, std::vector<MeshWays>> ways_;
  // If there are many kinds:
  std::map<int, StageKnapsack> knapsacks_;  // [ranks]
  // [first unit, last unit, ranks, in flight]
  std::map<std::array<int, 4>, StageKnapsack::Choice> choices_;
  std::map<std::array<int, 4>, SecondsBounds> bounds_;
  RankSeconds rank_seconds_;
  double most_stage_s_ = kImpossible;
  // (kind of unit, degrees, rows and roles of both dims, recomputation, sharding)
  using UniformKey = std::tuple<int, int, int, Role, Role, Role, Role, Recompute, StateSharding>;
  std::map<UniformKey, std::optional<UnitWay>> uniform_ways_;
};

}  // namespace trireme
