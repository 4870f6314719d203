#include "session/idle_checks.h"

#include "session/session_fixture.h"

namespace trireme {
namespace {

using IdleChecks = SessionTest;

// A check is named if and only if counting through the steps of the run finds no turn of it.
TEST_F(IdleChecks, AreThoseWithoutATurn) {
  for (const int64_t steps : {1, 7, 20}) {
    for (const int64_t stop_after : {0, 5}) {
      for (const int64_t step : {0, 3, 4}) {
        const int64_t last = stop_after > 0 ? std::min(stop_after, steps) : steps;
        for (int64_t every = 0; every <= 22; ++every) {
          RunConfig config;
          config.run.steps = steps;
          config.run.stop_after = stop_after;
          config.run.replay_every = every;
          bool has_turn = every == 0;
          for (int64_t at = step + 1; at <= last && !has_turn; ++at) has_turn = at % every == 0;
          EXPECT_EQ(idle_checks(config, step).empty(), has_turn)
              << steps << " " << stop_after << " " << step << " " << every;
        }
      }
    }
  }
}

TEST_F(IdleChecks, AreToldWhenTheRunBeginsAndRunWhereTheirIntervalFits) {
  RunConfig config = tiny_run(ComputeChoice::Fp32, 4);
  config.checkpoint.at_end = false;
  config.run.replay_every = config.run.check_products_every = config.run.check_state_every = 10;
  const Outcome idle = outcome_of(config, "idle");
  ASSERT_TRUE(idle.result.ok()) << idle.result.error().message;
  for (const char* key :
       {"run.replay_every", "run.check_products_every", "run.check_state_every"}) {
    EXPECT_NE(idle.messages.find(std::string(key) + " = 10: "), std::string::npos) << idle.messages;
  }
  // A save comes after a comparison of the state, whatever its interval is.
  config.checkpoint.at_end = true;
  config.run.replay_every = config.run.check_products_every = 4;
  const Outcome checked = outcome_of(config, "checked");
  ASSERT_TRUE(checked.result.ok()) << checked.result.error().message;
  EXPECT_EQ(checked.messages.find("_every = "), std::string::npos) << checked.messages;
}

}  // namespace
}  // namespace trireme
