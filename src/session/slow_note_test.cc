#include "session/slow_note.h"

#include <algorithm>
#include <future>

#include "base/units.h"
#include "session/session_fixture.h"

namespace trireme {
namespace {

TEST(SlowNote, IsToldOnceDuringSlowWorkAndNeverOfFastWork) {
  int told = 0;
  {
    const SlowNote fast(3600.0, [&] { ++told; });
  }
  EXPECT_EQ(told, 0);
  std::promise<void> heard;
  {
    const SlowNote slow(0.001, [&] {
      ++told;
      heard.set_value();
    });
    heard.get_future().wait();  // the work ends only after the note
  }
  EXPECT_EQ(told, 1);
  const SlowNote immediate(0.0, [&] { ++told; });
  EXPECT_EQ(told, 2);
}

class SlowStart : public SessionTest {
 protected:
  // The messages of a run of two ranks up to its first step.
  std::vector<std::string> messages(double told_after_s) const {
    class Messages : public RunObserver {
     public:
      void on_message(std::string_view message) override { all.emplace_back(message); }
      std::vector<std::string> all;
    } messages;
    const std::atomic<int> no_signals = 0;
    RunConfig config = tiny_run(ComputeChoice::Fp32, 1);
    config.parallel.dp = 2;
    HostFacts host;
    host.num_cores = 2;
    int64_t bytes = 0;
    const auto ended = run_session(
        {.config = config,
         .out_dir = path(std::to_string(told_after_s)),
         .host = host,
         .stop_signals = no_signals,
         .observers = {&messages},
         .on_ready = [&](const RunPlan& plan,
                         const TrainPosition&) { bytes = plan.largest().memory.arena_bytes; },
         .told_after_s = told_after_s});
    EXPECT_TRUE(ended.ok()) << ended.error().message;
    preparing_ = "preparing " + format_bytes(bytes) + " of memory for each of 2 ranks";
    return messages.all;
  }
  mutable std::string preparing_;  // the message about the memory of the last run
};

TEST_F(SlowStart, MemoryAndMeasurementsThatTakeLongerThanTheLimitAreTold) {
  const std::vector<std::string> slow = messages(0.0);
  ASSERT_FALSE(slow.empty());
  EXPECT_EQ(slow.front(), preparing_);
  EXPECT_EQ(std::count(slow.begin(), slow.end(), "measuring this machine"), 1);
  for (const std::string& message : messages(3600.0)) {
    EXPECT_NE(message, preparing_);
    EXPECT_NE(message, "measuring this machine");
  }
}

}  // namespace
}  // namespace trireme
