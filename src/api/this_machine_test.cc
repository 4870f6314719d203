#include "api/this_machine.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme {
namespace {

TEST(ThisMachine, ItsRanksShareItAndPayForCalls) {
  for (const int num_ranks : {1, 2, 3}) {
    RunConfig config;
    config.parallel.dp = num_ranks;
    const HostFacts host = this_host();
    const Result<Hardware> measured = measure_this_machine(config, host);
    ASSERT_TRUE(measured.ok()) << measured.error().message;
    EXPECT_EQ(measured->threads, std::max(1, host.num_cores / num_ranks));
    EXPECT_EQ(measured->nodes().size_at(0), num_ranks);
    EXPECT_GT(measured->fp32_flops, 0.0);
    EXPECT_EQ(measured->tiers.front().link.latency_s > 0.0, num_ranks > 1);
    EXPECT_EQ(measured->tiers.front().link.bytes_per_s > 0.0, num_ranks > 1);
  }
}

}  // namespace
}  // namespace trireme
