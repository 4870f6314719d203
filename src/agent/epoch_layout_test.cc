#include "agent/epoch_layout.h"

#include <gtest/gtest.h>

#include "schema/batch.h"

namespace trireme {
namespace {

RunConfig piped_run() {
  RunConfig config;
  config.parallel = {
      .dp = 4, .tp = 2, .pp = 2, .schedule = ScheduleKind::ZbH1, .zero = 2, .hsdp_shard = 2};
  config.batch.micro_sequences = 3;
  config.memory.recompute = Recompute::Selective;
  return config;
}

TEST(EpochLayout, ComesBackFromTheConfigurationThatHasIt) {
  const EpochLayout layout = epoch_layout_of(piped_run());
  EXPECT_EQ(layout.num_ranks(), 16);
  EXPECT_TRUE(is_possible(layout, 16));
  EXPECT_FALSE(is_possible(layout, 8));
  EXPECT_EQ(epoch_layout_of(with_epoch_layout(RunConfig{}, layout)), layout);
  EXPECT_EQ(text_of(layout),
            "dp=4 tp=2 pp=2 zero=2 hsdp_shard=2 schedule=zb_h1 recompute=selective");
  EXPECT_EQ(text_of(EpochLayout{}), "dp=1");
}

// Places of the pipeline with their own numbers of ranks: dp counts parts of the batch then.
TEST(EpochLayout, CountsTheRanksOfUnevenPlacesAndKeepsThem) {
  RunConfig config = piped_run();
  config.parallel.tp = 1;
  config.parallel.pp = 2;
  config.parallel.dp = 4;
  config.parallel.hsdp_shard = 0;
  config.parallel.order = "tp,cp,dp,pp";
  config.parallel.stage_dp = "2,1";
  const EpochLayout layout = epoch_layout_of(config);
  EXPECT_EQ(layout.num_ranks(), 3);
  EXPECT_TRUE(is_possible(layout, 3));
  for (const int other : {1, 2, 4, 8}) EXPECT_FALSE(is_possible(layout, other)) << other;
  const RunConfig again = with_epoch_layout(config, layout);
  EXPECT_EQ(again.parallel.stage_dp, "2,1");
  EXPECT_EQ(epoch_layout_of(again), layout);
  EXPECT_NE(text_of(layout).find(" ranks=3"), std::string::npos) << text_of(layout);
  config.parallel.stage_dp = "4,4";  // as many everywhere
  EXPECT_EQ(epoch_layout_of(config).num_ranks(), 8);
  EXPECT_EQ(with_epoch_layout(config, epoch_layout_of(config)).parallel.stage_dp, "");
}

// A batch that is derived from parallel.dp must not shrink with it.
TEST(EpochLayout, KeepsTheBatchHoweverItIsConfigured) {
  for (const int which : {0, 1, 2}) {
    RunConfig config = piped_run();
    if (which == 1) config.batch.global_sequences = 12;
    if (which == 2) config.batch.global_tokens = 12 * config.model.seq_len;
    EpochLayout layout = epoch_layout_of(config);
    EXPECT_EQ(layout.global_sequences, 12);
    layout.dp = 2;
    const RunConfig smaller = with_epoch_layout(config, layout);
    EXPECT_EQ(smaller.parallel.dp, 2);
    EXPECT_EQ(sequences_of_step(smaller), 12) << which;
    EXPECT_EQ(sequences_of_step(with_epoch_layout(smaller, epoch_layout_of(config))), 12);
  }
}

}  // namespace
}  // namespace trireme
