#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "autoparallel/eliminate_choices.h"
#include "autoparallel/integer_program_fixture.h"
#include "autoparallel/unit_problem.h"
#include "config/cluster_file.h"
#include "config/config_load.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

const std::filesystem::path kRoot = std::filesystem::path(__FILE__).parent_path() / ".." / "..";

StageMesh eight_by_eight() {
  for (const StageMesh& mesh : stage_meshes(64, 64)) {
    if (mesh.dims[0].degree() == 8) return mesh;
  }
  return {};
}

// Both solvers agree on the layers of all models in models/, and ours needs less than 10 s for
// each.
TEST(ModelLayers, AreSolvedAlikeOnEightByEightRanks) {
  const Hardware hardware = load_hardware(kRoot / "clusters" / "dgx-a100-80g.toml").value();
  const StageShape base{.compute = DType::BF16};
  int solved = 0;
  double longest_s = 0.0;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "models")) {
    ConfigRequest request;
    request.files = {entry.path().string()};
    const ModelSpec model = with_defaults(load_config(request).value().config.model, 50304);
    for (const LayerRun& kind : layer_kinds(model)) {
      PricedUnit layer(layer_graph(model, kind.first), kind.first, model, base, hardware);
      const UnitSetting setting{.mesh = eight_by_eight(),
                                .num_microbatches = 16,
                                .stream = {DimPlacement::Rows, DimPlacement::Invariant}};
      const auto begin = std::chrono::steady_clock::now();
      const UnitProblem unit = unit_problem(layer, setting);
      const auto ours = least_seconds(unit.problem, {});
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      longest_s = std::max(longest_s, took.count());
      const auto by_cbc = solve_integer_program(unit.problem, {});
      ASSERT_EQ(ours.has_value(), by_cbc.has_value()) << entry.path();
      if (!ours) continue;
      ++solved;
      EXPECT_NEAR(ours->cost.seconds, by_cbc->cost.seconds, 1e-6 * ours->cost.seconds)
          << entry.path();
    }
  }
  EXPECT_GT(solved, 30);
  EXPECT_LT(longest_s, 10.0);
}

}  // namespace
}  // namespace trireme
