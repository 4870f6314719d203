#include "schema/stage_rules.h"

#include <gtest/gtest.h>

#include "schema/mesh.h"
#include "schema/run_config_validate.h"

namespace trireme {
namespace {

RunConfig uneven_run() {
  RunConfig config;
  config.model.layers = 8;
  config.batch.global_sequences = 16;
  config.batch.micro_sequences = 1;
  config.parallel.dp = 4;
  config.parallel.pp = 2;
  config.parallel.order = "tp,cp,dp,pp";
  config.parallel.stage_dp = "4,2";
  config.run.reproducible = Reproducible::Layout;
  return config;
}

// Each refusal names the key, and what it tells to do removes it.
void expect_refused(const RunConfig& config, const std::string& key, const std::string& rule,
                    const std::string& remedy) {
  const std::vector<ConfigProblem> problems = validate(config);
  ASSERT_EQ(problems.size(), 1u) << rule;
  EXPECT_EQ(problems[0].key, key);
  EXPECT_NE(problems[0].rule.find(rule), std::string::npos) << problems[0].message();
  EXPECT_NE(problems[0].remedy.find(remedy), std::string::npos) << problems[0].message();
}

TEST(StageRules, WhatStagesMayNotSayIsNamedWithARemedy) {
  ASSERT_TRUE(validate(uneven_run()).empty());
  const auto with = [](const std::string& stage_dp) {
    RunConfig config = uneven_run();
    config.parallel.stage_dp = stage_dp;
    return config;
  };
  const std::string dp = "parallel.stage_dp", layers = "parallel.stage_layers";
  expect_refused(with("4,two"), dp, "has \"two\", which is no number", "such as \"2,1\"");
  expect_refused(with("4,0"), dp, "has \"0\"", "such as \"2,1\"");
  expect_refused(with("4,"), dp, "has \"\"", "such as \"2,1\"");
  expect_refused(with("4,2,1"), dp, "has 3 numbers for the parallel.pp = 2 places",
                 "set parallel.pp = 3");
  expect_refused(with("4,3"), dp, "has 3, which does not divide the parallel.dp = 4 parts",
                 "set parallel.dp = 12");
  RunConfig config = uneven_run();
  config.parallel.order = "tp,cp,pp,dp";
  expect_refused(config, dp, "pp is the last axis", "tp,cp,dp,pp");
  config = uneven_run();
  config.parallel.stage_layers = "3,4";
  expect_refused(config, layers, "has 7 layers, and model.layers is 8", "make them equal");
  config.parallel.stage_layers = "3,4,1";
  expect_refused(config, layers, "has 3 numbers for 2 stages", "write one for each");
}

// Each refusal goes away with what the remedy says.
TEST(StageRules, GroupsOfRanksFitEveryPlace) {
  const std::string dp = "parallel.stage_dp";
  RunConfig config = uneven_run();
  config.parallel.dp = 12;
  config.batch.global_sequences = 48;
  config.parallel.zero = 1;
  config.parallel.hsdp_shard = 4;
  config.parallel.stage_dp = "12,6";
  expect_refused(config, dp, "gives place 1 of the pipeline dp = 6", "at most 4 ranks");
  for (const char* stage_dp : {"12,3", "3,12"}) {
    config.parallel.stage_dp = stage_dp;
    EXPECT_TRUE(validate(config).empty()) << stage_dp;
  }
  config = uneven_run();
  config.model.family = ModelFamily::Moe;
  config.model.experts = 4;
  config.parallel.ep = 4;
  expect_refused(config, dp, "parallel.ep = 4 does not divide its 2 ranks", "a multiple of 4");
  config.parallel.ep = 2;
  EXPECT_TRUE(validate(config).empty());
  config.parallel.stage_dp = "1,4";
  expect_refused(config, dp, "gives place 0 of the pipeline dp = 1", "a multiple of 2");
  config.parallel.cp = 2;
  EXPECT_TRUE(validate(config).empty());
}

// Dualpipe holds stages 0 and 3 at places 0 and 3, and stages 1 and 2 at places 1 and 2.
TEST(StageRules, TwoDirectionsNeedEqualRanksAtBothPlacesOfAStage) {
  RunConfig config = uneven_run();
  config.parallel.schedule = ScheduleKind::Dualpipe;
  expect_refused(config, "parallel.stage_dp", "gives places 0 and 1 of the pipeline 4 and 2 ranks",
                 "dualpipev");
  config.parallel.stage_dp = "2,2";
  EXPECT_TRUE(validate(config).empty());
  config.parallel.stage_dp.clear();
  config.parallel.tp = 2;
  config.parallel.stage_tp = "1,2";
  expect_refused(config, "parallel.stage_tp", "gives places 0 and 1 of the pipeline 1 and 2 ranks",
                 "dualpipev");
  config.parallel.schedule = ScheduleKind::DualpipeV;
  EXPECT_TRUE(validate(config).empty());
  // Three parts of the batch have no tree in which a direction is a node.
  config = uneven_run();
  config.parallel.schedule = ScheduleKind::Dualpipe;
  config.parallel.dp = 3;
  config.parallel.stage_dp = "1,1";
  config.batch.global_sequences = 12;
  expect_refused(config, "parallel.stage_dp", "are no nodes of the tree", "\"fixed\"");
  config.run.reproducible = Reproducible::Fixed;
  EXPECT_TRUE(validate(config).empty());
}

// The last stage has the head, so it alone needs no layer.
TEST(StageRules, OnlyTheLastStageOfAModelOfTextMayHaveNoLayer) {
  RunConfig config = uneven_run();
  config.parallel.stage_layers = "8,0";
  EXPECT_TRUE(validate(config).empty());
  const std::string layers = "parallel.stage_layers";
  config.parallel.stage_layers = "0,8";
  expect_refused(config, layers, "has 0 layers for stage 0", "give it a layer");
  config.parallel.stage_dp.clear();
  config.parallel.pp = 9;
  config.parallel.stage_layers = "1,1,1,1,1,1,1,1,0";
  EXPECT_TRUE(validate(config).empty());
  config = uneven_run();
  config.parallel.stage_layers = "8,-1";
  expect_refused(config, layers, "has \"-1\", which is no number between 0", "such as \"2,1\"");
}

TEST(StageRules, WhatTensorDegreesOfPlacesMayNotSayIsNamedWithARemedy) {
  const auto with = [](const std::string& stage_tp) {
    RunConfig config = uneven_run();
    config.parallel.stage_dp.clear();
    config.parallel.tp = 2;
    config.parallel.stage_tp = stage_tp;
    return config;
  };
  ASSERT_TRUE(validate(with("1,2")).empty());
  EXPECT_EQ(num_ranks(with("1,2").parallel), 12);
  const std::string tp = "parallel.stage_tp";
  expect_refused(with("1,two"), tp, "has \"two\", which is no number", "such as \"2,1\"");
  expect_refused(with("1,2,1"), tp, "has 3 numbers for the parallel.pp = 2 places",
                 "set parallel.pp = 3");
  expect_refused(with("3,1"), tp, "has 3, which does not divide the parallel.tp = 2 ranks",
                 "set parallel.tp = 3");
  RunConfig config = with("1,2");
  config.parallel.order = "tp,cp,pp,dp";
  expect_refused(config, tp, "pp is the last axis", "tp,cp,dp,pp");
  config = with("1,2");
  config.parallel.sequence = true;
  EXPECT_TRUE(validate(config).empty());
  config.model.seq_len -= 1;
  expect_refused(config, tp, "tokens of a micro-batch do not split", "parallel.sequence = false");
}

// Twelve parts of the batch on two ranks are six for each, which no binary tree has as a node.
TEST(StageRules, SeveralPartsOfARankAreANodeOfTheTree) {
  RunConfig config = uneven_run();
  config.parallel.dp = 12;
  config.batch.global_sequences = 48;
  for (const char* stage_dp : {"12,1", "12,6", "3,12"}) {
    config.parallel.stage_dp = stage_dp;
    EXPECT_TRUE(validate(config).empty()) << stage_dp;
  }
  config.parallel.stage_dp = "12,2";
  expect_refused(config, "parallel.stage_dp", "sums along a binary tree", "\"fixed\"");
  config.run.reproducible = Reproducible::Fixed;
  EXPECT_TRUE(validate(config).empty());
}

// As many ranks as usual at every place are the usual mesh, in every order.
TEST(StageRules, EqualDegreesAreTheUsualMesh) {
  RunConfig config = uneven_run();
  config.parallel.stage_dp = "4, 4";
  config.parallel.order = "tp,cp,pp,dp";
  EXPECT_TRUE(validate(config).empty());
  EXPECT_TRUE(mesh_of(config.parallel).places.empty());
  EXPECT_EQ(num_ranks(config.parallel), 8);
  config.parallel.stage_dp = "4,2";
  EXPECT_EQ(num_ranks(config.parallel), 6);
}

// Messages about the number of ranks must not count with numbers that mean nothing.
TEST(StageRules, ImpossibleDegreesCountNoRanks) {
  RunConfig config = uneven_run();
  for (const char* stage_dp : {"4,two", "4,0", "4,2,1", "4"}) {
    config.parallel.stage_dp = stage_dp;
    EXPECT_FALSE(has_possible_places(config.parallel)) << stage_dp;
    EXPECT_EQ(num_ranks(config.parallel), 8) << stage_dp;
  }
}

}  // namespace
}  // namespace trireme
