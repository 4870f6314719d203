// Samples are announced to their source before they are read, so that a source elsewhere can fetch
// them while the micro-batch before is computed.

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "train/corruption_fixture.h"
#include "train/run_save_fixture.h"

namespace trireme {
namespace {

TEST(ReadAhead, EverySampleButTheFirstOfARankIsAnnouncedBeforeItIsRead) {
  for (const auto& degrees : {std::pair(1, 1), std::pair(2, 1), std::pair(1, 3)}) {
    const int dp = degrees.first, pp = degrees.second;
    RunConfig config = some_run();
    config.parallel.dp = dp;
    config.parallel.pp = pp;
    config.batch.global_sequences = 8;
    config.batch.micro_sequences = 2;
    const RunPlan plan = plan_of(config);
    run_ranks(plan.num_ranks(), [&](World& world) {
      WatchedSource source(plan.model.vocab_size);
      std::set<uint64_t> announced;
      int num_read = 0, num_surprises = 0;
      source.on_announced = [&](uint64_t first, int64_t count) {
        for (int64_t sample = 0; sample < count; ++sample)
          announced.insert(first + uint64_t(sample));
      };
      source.on_read = [&](uint64_t sample) {
        ++num_read;
        num_surprises += announced.erase(sample) == 0 ? 1 : 0;
      };
      Engine engine(plan, world, *choose_kernels(IsaChoice::Auto)->kernels, source);
      engine.init_params(1);
      for (uint64_t step = 0; step < 3; ++step) engine.step(step * 8, 1e-2);
      if (pp == 3 && world.rank() == 1) {  // has neither tokens nor targets
        EXPECT_EQ(num_read, 0);
        EXPECT_EQ(announced.size(), 0u);
        return;
      }
      EXPECT_EQ(num_read, 3 * 8 / dp);
      EXPECT_EQ(num_surprises, 2);      // the first micro-batch
      EXPECT_EQ(announced.size(), 2u);  // of the step that does not come
    });
  }
}

}  // namespace
}  // namespace trireme
