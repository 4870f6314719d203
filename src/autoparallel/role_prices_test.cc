#include "autoparallel/role_prices.h"

#include <gtest/gtest.h>

#include <set>

#include "autoparallel/four_ranks_fixture.h"
#include "schema/image_net.h"

namespace trireme {
namespace {

// The chosen roles cost what the stage costs, and no other role of an op makes a stage that fits
// cheaper.
TEST(RolePrices, TheChosenRolesAreTheCheapestThatFit) {
  int dearer = 0, too_large = 0;
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Moe}) {
    for (const double memory : {1e12, 60e6, 30e6}) {
      const PlannedRun run = run_with(small_config(family), memory);
      ClusterStages search(run, 4);
      for (const int ranks : {2, 4}) {
        const auto stage = search.best(0, 0, 4, ranks, 2);
        if (!stage) continue;
        for (size_t unit = 0; unit < stage->units.size(); ++unit) {
          const auto prices = role_prices(search, *stage, 0, unit);
          ASSERT_EQ(prices.size(), stage->units[unit].way.roles.size());
          for (const std::vector<RolePrice>& of_op : prices) {
            ASSERT_FALSE(of_op.empty());
            const RolePrice& chosen = of_op.front();
            EXPECT_TRUE(chosen.is_chosen);
            EXPECT_NEAR(chosen.stage_s, stage->seconds, 1e-9 * stage->seconds);
            std::set<Roles> seen;
            for (const RolePrice& price : of_op) {
              EXPECT_TRUE(seen.insert(price.roles).second) << "priced once";
              EXPECT_GE(price.stage_s, chosen.stage_s * (1.0 - 1e-9));
              EXPECT_EQ(price.stage_s == kImpossible, price.bytes > memory);
              dearer += price.stage_s > 1.01 * chosen.stage_s ? 1 : 0;
              too_large += price.stage_s == kImpossible && price.bytes < kImpossible ? 1 : 0;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(dearer, 0);
  EXPECT_GT(too_large, 0);
}

bool shares_out_units(const Roles& roles) {
  const auto has = [&](Role role) { return roles[0] == role || roles[1] == role; };
  return has(Role::Tensor) || has(Role::SequenceTensor);
}

// Convolutions have few weights and many numbers, and dense layers the opposite (Krizhevsky 2014).
TEST(RolePrices, ConvolutionsShareOutImagesAndDenseLayersTheirUnits) {
  for (const ModelFamily family : {ModelFamily::AlexNet, ModelFamily::Vgg16}) {
    RunConfig config;
    config.model.family = family;
    config.model.layers = layers_of_family(family, 0);
    config.model.image_size = 224;
    config.model.vocab_size = 1000;
    config.model.seq_len = 1;
    config.data.source = DataSource::Synthetic;
    config.batch.global_sequences = 128;
    config.parallel.dp = 4;
    Hardware hardware = small_cluster();
    hardware.set_nodes(4, {5e-6, 20e9});
    PlannedRun run = planned_run(config, host_of(hardware), hardware).value();
    run.recomputes = {Recompute::None};
    ClusterStages search(run, 128);
    const auto stage = search.best(0, 0, run.num_units() - 1, 4, 1);
    ASSERT_TRUE(stage);
    const StageSearch names(run, 128);
    int convolutions = 0, dense = 0;
    for (size_t unit = 0; unit < stage->units.size(); ++unit) {
      const OpGroups& groups = names.groups(stage->units[unit].kind);
      const auto prices = role_prices(search, *stage, 0, unit);
      for (size_t group = 0; group < prices.size(); ++group) {
        const std::string& name = groups.groups()[group].name;
        double data_s = kImpossible, tensor_s = kImpossible;
        for (const RolePrice& price : prices[group]) {
          double& least_s = shares_out_units(price.roles) ? tensor_s : data_s;
          least_s = std::min(least_s, price.stage_s);
        }
        const bool has_units = shares_out_units(prices[group].front().roles);
        if (name.find("conv") != std::string::npos) {
          ++convolutions;
          EXPECT_FALSE(has_units) << name;
          EXPECT_LE(data_s, tensor_s) << name;
        }
        if (name == "fc.w") {
          ++dense;
          EXPECT_TRUE(has_units) << name;
          EXPECT_LT(tensor_s, data_s) << name;
        }
      }
    }
    EXPECT_GT(convolutions, 3);
    EXPECT_GT(dense, 0);
  }
}

}  // namespace
}  // namespace trireme
