#include "planner/simple_choices.h"

#include <gtest/gtest.h>

#include "planner/small_run_fixture.h"

namespace trireme {
namespace {

// Wide enough that tensor parallelism pays.
RunConfig wide_run() {
  RunConfig config = small_run(ModelFamily::Gpt2);
  config.model.d_model = 64;
  config.model.d_ff = 128;
  config.batch.global_sequences = 8;
  config.batch.micro_sequences = 8;
  return config;
}

// No rule of thumb is faster than the search, and each keeps to its rule.
TEST(SimpleChoices, AreLayoutsOfTheirRulesThatAreNeverFasterThanTheFastest) {
  const RunConfig config = wide_run();
  const LayoutSearch all = search_layout(config, {}, two_nodes(), 8, 1).value();
  const std::vector<SimpleChoice> simple = price_simple_choices(config, {}, two_nodes(), 8);
  ASSERT_EQ(simple.size(), 3u);
  for (const SimpleChoice& choice : simple) {
    ASSERT_TRUE(choice.best.has_value()) << choice.refusal;
    EXPECT_GE(regret_of(*choice.best, all.best), 0.0) << choice.name;
  }
  EXPECT_EQ(simple[0].best->layout.mesh, (Mesh{.dp = 8}));
  EXPECT_EQ(simple[0].best->layout.zero, 3);
  EXPECT_EQ(simple[1].best->layout.mesh, (Mesh{.tp = 2, .dp = 4}));
  EXPECT_EQ(simple[2].best->layout.mesh.tp, 2);
  EXPECT_GT(simple[2].best->layout.mesh.pp, 1);
}

TEST(SimpleChoices, ARuleWithoutAFeasibleLayoutSaysWhy) {
  RunConfig config = wide_run();
  config.batch.global_sequences = 4;  // fewer than the ranks of pure FSDP
  const std::vector<SimpleChoice> simple = price_simple_choices(config, {}, two_nodes(), 8);
  ASSERT_FALSE(simple.empty());
  EXPECT_FALSE(simple[0].best.has_value());
  EXPECT_NE(simple[0].refusal.find("parallel.dp"), std::string::npos) << simple[0].refusal;
}

TEST(SimpleChoices, ADifferenceNamesTheSettingsAndTheirCost) {
  PricedLayout best, other;
  best.layout.mesh = {.tp = 2};
  best.time.step = 1.0;
  best.arena_bytes = 3 << 20;
  other = best;
  other.layout.exchange.sequence = true;
  other.time.step = 1.25;
  other.arena_bytes = 2 << 20;
  EXPECT_EQ(difference_text(best, other),
            "parallel.sequence = true instead of false: 25.0 % slower; 1.0 MiB less memory");
}

// The part that grew most is the cause of a slower step, the one that shrank most of a faster one.
TEST(SimpleChoices, ADifferenceNamesThePartOfTheStepThatCausesIt) {
  PricedLayout best, other;
  best.layout.mesh = {.pp = 2};
  best.time = {.compute = 0.9, .exposed_comm = 0.05, .bubble = 0.05, .step = 1.0};
  best.time.exposed[0] = 0.05;
  other = best;
  other.layout.schedule = ScheduleKind::Interleaved;
  other.layout.chunks = 4;
  other.time.exposed[0] = 0.04;
  other.time.bubble = 0.07;
  other.time.step = 1.01;
  EXPECT_EQ(
      difference_text(best, other),
      "parallel.schedule = \"interleaved\" instead of \"1f1b\", parallel.chunks = 4 instead of "
      "1: 1.0 % slower, because its pipeline idles 70.0 ms instead of 50.0 ms; the same memory");
  EXPECT_NE(difference_text(other, best).find("faster, because its pipeline idles 50.0 ms instead"),
            std::string::npos);
  other.layout.recompute = Recompute::Full;
  other.time.compute = 1.2;
  other.time.step = 1.31;
  EXPECT_NE(difference_text(best, other)
                .find("because it computes, with recomputation, 1.20 s instead of 900.0 ms"),
            std::string::npos)
      << difference_text(best, other);
}

}  // namespace
}  // namespace trireme
