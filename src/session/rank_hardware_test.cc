#include "session/rank_hardware.h"

#include <gtest/gtest.h>

#include "planner/make_plan.h"

namespace trireme {
namespace {

RunPlan plan_of(int ranks, int threads) {
  RunConfig config;
  config.model.vocab_size = 96;
  config.model.seq_len = 64;
  config.batch.global_sequences = 8;
  config.batch.micro_sequences = 1;
  config.parallel.dp = ranks;
  config.run.threads_per_rank = threads;
  return make_plan(config, {.num_cores = ranks * threads}).value();
}

// What a run has learned prices the next run of the same layout, also if its ranks share cores.
TEST(RankHardware, TheFileOfAllRanksGivesEachRankItsShare) {
  Hardware of_rank;
  of_rank.fp32_flops = 1e11;
  of_rank.bf16_flops = 2e11;
  of_rank.memory_bytes_per_s = 2e10;
  of_rank.matmul_bytes_per_s = 3e10;
  for (const int ranks : {1, 2, 4}) {
    for (const int on_host : {1, 2, 4}) {
      if (ranks % on_host != 0) continue;
      for (const int threads : {1, 2}) {
        for (const int cores : {1, 2, 3, 8}) {
          SCOPED_TRACE(testing::Message() << ranks << " ranks, " << on_host << " on a host of "
                                          << cores << " cores, " << threads << " threads");
          const RunPlan plan = plan_of(ranks, threads);
          const HostFacts host = {.num_cores = cores, .ranks_on_host = on_host};
          const Hardware again = share_of(of_all_ranks(of_rank, plan, host), plan, host);
          EXPECT_DOUBLE_EQ(again.fp32_flops, of_rank.fp32_flops);
          EXPECT_DOUBLE_EQ(again.bf16_flops, of_rank.bf16_flops);
          EXPECT_DOUBLE_EQ(again.memory_bytes_per_s, of_rank.memory_bytes_per_s);
          EXPECT_DOUBLE_EQ(again.matmul_bytes_per_s, of_rank.matmul_bytes_per_s);
        }
      }
    }
  }
}

// A communication thread without a core takes that of its rank: for the bytes that it sends to
// another host, and for nearly all of the time in which it copies between ranks of one host.
TEST(RankHardware, TransfersTakeTheCoreOfARankThatHasNoOther) {
  Hardware machine;
  machine.threads = 2;
  machine.matmul_bytes_per_s = 1e10;  // a processor
  machine.core_s_per_byte = 1e-9;
  const RunPlan plan = plan_of(2, 1);
  const Hardware own_host = share_of(machine, plan, {.num_cores = 1, .ranks_on_host = 1});
  EXPECT_EQ(own_host.core_s_per_byte, 1e-9);
  EXPECT_EQ(own_host.overlap_share, 0.0);
  const Hardware one_host = share_of(machine, plan, {.num_cores = 2, .ranks_on_host = 2});
  EXPECT_EQ(one_host.core_s_per_byte, 1e-9);
  EXPECT_GT(one_host.overlap_share, 0.5);
  const Hardware free_cores = share_of(machine, plan, {.num_cores = 4, .ranks_on_host = 2});
  EXPECT_EQ(free_cores.core_s_per_byte, 0.0);
  EXPECT_EQ(free_cores.overlap_share, 0.0);
}

}  // namespace
}  // namespace trireme
