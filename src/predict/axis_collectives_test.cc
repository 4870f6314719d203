#include "predict/axis_collectives.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"

namespace trireme {
namespace {

// Ranks of one processor move gradients through its memory, on a thread of their own.
TEST(AxisCollectives, OnAProcessorTheTimeOfDpIsThatOfThePrediction) {
  RunConfig config = small_run(ModelFamily::Gpt2);
  config.parallel.dp = 2;
  Hardware hardware = two_nodes();
  hardware.background_s = 1e-3;
  hardware.matmul_bytes_per_s = 1e11;
  hardware.memory_bytes_per_s = 1e9;
  ASSERT_TRUE(hardware.is_processor());
  int num_sums = 0;
  for (const AxisCollective& one : axis_collectives(make_plan(config, {}).value(), hardware)) {
    if (one.collective != name_of(VectorMove::AllReduce)) continue;
    ++num_sums;
    EXPECT_DOUBLE_EQ(one.price.seconds,
                     1e-3 + vectors_s(hardware, one.span, VectorMove::AllReduce, one.sent_bytes));
  }
  EXPECT_EQ(num_sums, 1);
}

// Rank 0 is a server: it sends parameters, and the other ranks send gradients.
TEST(AxisCollectives, ParameterServersHavePushesAndPulls) {
  for (const int servers : {1, 2, 4}) {
    RunConfig config = small_run(ModelFamily::Gpt2);
    config.parallel.dp = 4;
    config.batch.global_sequences = 8;
    config.parallel.sync = GradSync::ParameterServer;
    config.parallel.servers = servers;
    std::vector<std::string> names;
    for (const AxisCollective& one : axis_collectives(make_plan(config, {}).value(), two_nodes())) {
      EXPECT_GT(one.sent_bytes, 0.0);
      names.push_back(one.axis + " " + one.collective);
    }
    EXPECT_EQ(names, (std::vector<std::string>{"dp reduce_scatter", "dp all_gather"})) << servers;
  }
}

}  // namespace
}  // namespace trireme
