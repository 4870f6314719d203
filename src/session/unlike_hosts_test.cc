// Ranks on hosts that do not have the same number of cores for each of them.
#include <gtest/gtest.h>

#include <mutex>

#include "comm/world.h"
#include "session/rank_session.h"
#include "session/session_fixture.h"

namespace trireme {
namespace {

class UnlikeHosts : public SessionTest {};

// Ranks that share a core measure otherwise than ranks with a core of their own, but all of them
// make the same calls.
TEST_F(UnlikeHosts, MeasureTogetherAndTrain) {
  RunConfig config = tiny_run(ComputeChoice::Fp32, 2);
  config.parallel.dp = 3;
  config.batch.global_sequences = 3;
  const HostFacts two_cores = {.num_cores = 2, .ranks_on_host = 2};
  const HostFacts one_core = {.num_cores = 1, .ranks_on_host = 2};
  for (const int crowded : {0, 1, 2}) {
    SCOPED_TRACE(crowded);
    const std::string out_dir = path("crowded-" + std::to_string(crowded));
    const std::atomic<int> no_signals = 0;
    const auto options_on = [&](const HostFacts& host) {
      return SessionOptions{
          .config = config, .out_dir = out_dir, .host = host, .stop_signals = no_signals};
    };
    const SessionOptions usual = options_on(two_cores), shared = options_on(one_core);
    std::filesystem::create_directories(out_dir);
    const RunPlan plan = plan_session(config, {.num_cores = 4}).value();
    RunFolder folder = std::move(RunFolder::hold(out_dir, "")).value();
    const CpuLoad load;
    const KernelChoice choice = choose_kernels(IsaChoice::Auto).value();
    std::mutex mutex;
    run_ranks(plan.num_ranks(), {}, [&](World& world) {
      SessionParts parts{world.rank() == crowded ? shared : usual, plan, choice, folder, load};
      RankSession session(parts, world,
                          std::move(open_session_data(config, plan.model.vocab_size)).value(),
                          [](Engine& engine) { return std::make_unique<StepsTogether>(engine); });
      const Result<SessionResult> result = session.run();
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(result.ok()) << result.error().message;
    });
  }
}

}  // namespace
}  // namespace trireme
