#include "agent/restart_policy.h"

#include <gtest/gtest.h>

#include "agent/rank_link.h"

namespace trireme {
namespace {

JobFailure killed_after(int64_t step, int64_t at_s = 0) {
  return {.rank = 1,
          .step = step,
          .furthest_step = step,
          .kind = "killed",
          .what = "was killed by signal 9 (Killed)",
          .time_s = double(at_s)};
}

JobFailure failed_after(int64_t step, const std::string& cause, int exit_code = 5) {
  return {.rank = 2,
          .step = step,
          .furthest_step = step,
          .kind = "failed",
          .what = "ended with exit code 5",
          .cause = cause,
          .exit_code = exit_code};
}

TEST(RestartPolicy, GoesOnWhileStepsAreDone) {
  RestartPolicy policy(1000);
  for (int step = 1; step <= 500; ++step) {
    EXPECT_EQ(policy.why_end(killed_after(step)), "");
    EXPECT_EQ(policy.why_end(killed_after(step)), "");
  }
  EXPECT_NE(policy.why_end(killed_after(500)), "") << "the third in a row without a step";
}

// A rank is killed. When another one stands still and is killed, the others may notice that they
// wait for it before its death is seen.
TEST(RestartPolicy, CountsWaitingInVainApart) {
  JobFailure in_vain = killed_after(7);
  in_vain.kind = "lost";
  for (size_t place = 0; place < 3; ++place) {
    RestartPolicy policy(1000);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(policy.why_end(i == place ? in_vain : killed_after(7)), "") << place << i;
    }
    EXPECT_NE(policy.why_end(killed_after(7)), "") << "three ranks were killed without a step";
  }
  RestartPolicy policy(1000);
  EXPECT_EQ(policy.why_end(in_vain), "");
  EXPECT_EQ(policy.why_end(in_vain), "");
  EXPECT_NE(policy.why_end(in_vain), "") << "nothing but waiting in vain";
}

TEST(RestartPolicy, EndsIfARankFailsTwiceInTheSameWay) {
  RestartPolicy policy(1000);
  EXPECT_EQ(policy.why_end(failed_after(7, "a")), "");
  EXPECT_EQ(policy.why_end(failed_after(7, "b")), "");
  RestartPolicy same(1000);
  EXPECT_EQ(same.why_end(failed_after(7, "a")), "");
  EXPECT_EQ(same.why_end(failed_after(9, "a")), "");
  JobFailure of_another_rank = failed_after(10, "a");  // known within one step
  of_another_rank.rank = 0;  // which rank is the first to fail may be chance
  EXPECT_NE(same.why_end(of_another_rank), "");
}

TEST(RestartPolicy, EndsBeforeTheFirstStepAndForWhatANewStartCannotCure) {
  EXPECT_NE(RestartPolicy(100).why_end(killed_after(0)), "");
  for (const int code : {2, 3, 4}) {
    EXPECT_NE(RestartPolicy(100).why_end(failed_after(9, "a", code)), "") << code;
  }
  EXPECT_NE(RestartPolicy(0).why_end(killed_after(9)), "");
}

JobFailure failed_with(int64_t first_sample, int64_t step, int exit_code = 5) {
  JobFailure failure = failed_after(step, "a", exit_code);
  failure.evidence.first_sample = first_sample;
  failure.evidence.num_samples = 4;
  return failure;
}

TEST(RestartPolicy, NamesTheSamplesOfAStepThatFailsTwice) {
  RestartPolicy policy(100);
  EXPECT_EQ(policy.why_end(failed_with(28, 7)), "");
  EXPECT_EQ(policy.why_end(failed_with(32, 8)), "") << "other samples, so not the same failure";
  const std::string why = policy.why_end(failed_with(32, 8));
  EXPECT_NE(why.find("samples 32 to 35"), std::string::npos) << why;
  EXPECT_NE(why.find("run.skip_bad_batches"), std::string::npos) << why;
  EXPECT_FALSE(policy.failures().back().is_left_out);
}

TEST(RestartPolicy, LeavesOutTheSamplesOfAStepThatFailsTwice) {
  for (const int exit_code : {4, 5}) {  // damaged tokens, or a crash
    RestartPolicy policy(100, true);
    for (const int64_t first : {28, 40}) {
      const int64_t step = first / 4;
      EXPECT_EQ(policy.why_end(failed_with(first, step, exit_code)), "");
      EXPECT_FALSE(policy.failures().back().is_left_out);
      EXPECT_EQ(policy.why_end(failed_with(first, step, exit_code)), "");
      EXPECT_TRUE(policy.failures().back().is_left_out);
    }
  }
  RestartPolicy usage(100, true);
  EXPECT_NE(usage.why_end(failed_with(28, 7, 2)), "") << "no samples cause this";
}

TEST(RestartPolicy, LeavesOutNothingThatIsNotTheCause) {
  RestartPolicy policy(100, true);
  policy.why_end(failed_with(28, 7));
  policy.why_end(failed_with(28, 7));
  EXPECT_NE(policy.why_end(failed_with(32, 7)).find("not the cause"), std::string::npos);

  RestartPolicy unknown(100, true);  // the samples of the rank are unknown
  EXPECT_EQ(unknown.why_end(failed_after(7, "a")), "");
  EXPECT_NE(unknown.why_end(failed_after(7, "a")), "");

  RestartPolicy many(1000, true);
  for (int64_t step = 10; step < 10 * (kMostLeftOutBatches + 1); step += 10) {
    EXPECT_EQ(many.why_end(failed_with(4 * step, step)), "");
    EXPECT_EQ(many.why_end(failed_with(4 * step, step)), "");
  }
  many.why_end(failed_with(1000, 250));
  EXPECT_NE(many.why_end(failed_with(1000, 250)), "");
}

// The numbers of several steps were not finite after a start from the checkpoint of step 21.
JobFailure diverged_after(int64_t step, int64_t resumed_step = 21) {
  JobFailure failure =
      failed_after(step, "step " + std::to_string(step) + ": no gradient was finite");
  failure.evidence.nonfinite_steps = 32;
  failure.resumed_step = resumed_step;
  failure.older_step = 20;
  return failure;
}

JobFailure resumed_from(JobFailure failure, int64_t resumed_step, int64_t older_step) {
  failure.resumed_step = resumed_step;
  failure.older_step = older_step;
  return failure;
}

// The class of a failure decides how often it must come back.
TEST(RestartPolicy, GoesBackOnceIfTheDataIsNotTheCauseAndAnOlderCheckpointIsThere) {
  const auto unknown = resumed_from(failed_after(53, "a"), 40, 30);
  const auto killed = resumed_from(killed_after(53), 40, 30);
  auto refused = resumed_from(failed_after(53, "a", 4), 40, 30);
  refused.evidence.phase = "load";
  struct Case {
    JobFailure failure;
    int num_restarts;  // from the newest checkpoint
  };
  for (const auto& [failure, num_restarts] :
       {Case{unknown, 1}, Case{killed, 2}, Case{refused, 0}, Case{diverged_after(53, 40), 1}}) {
    RestartPolicy policy(1000);
    SCOPED_TRACE(failure.kind + " " + failure.cause);
    for (int restart = 0; restart < num_restarts; ++restart) {
      EXPECT_EQ(policy.why_end(failure), "");
      EXPECT_EQ(policy.failures().back().goes_back_to, -1);
    }
    EXPECT_EQ(policy.why_end(failure), "");
    const int64_t most = failure.evidence.nonfinite_steps > 0 ? 53 - 32 - 1 : 39;
    EXPECT_EQ(policy.failures().back().goes_back_to, most);
    EXPECT_NE(policy.failures().back().why_back, "");
    // It fails again although it has resumed from an older one.
    std::string why;
    int repetitions = 0;
    for (; why.empty() && repetitions < 10; ++repetitions) {
      why = policy.why_end(resumed_from(failure, 30, 10));
      EXPECT_EQ(policy.failures().back().goes_back_to, -1) << "only once";
    }
    EXPECT_EQ(repetitions, failure.kind == "killed" ? 3 : 1);
    EXPECT_NE(why.find("has gone back to an older checkpoint before"), std::string::npos) << why;
  }
}

// A checkpoint was damaged while it was loaded, and the first rank was killed before it could tell
// which one it is. The next ranks find the damage and take another one.
TEST(RestartPolicy, ChecksCheckpointsAgainIfTheDamagedOneIsNotKnown) {
  JobFailure damaged = failed_after(53, "a wrong checksum", 4);
  damaged.evidence.phase = "load";
  RestartPolicy policy(1000);
  EXPECT_EQ(policy.why_end(killed_after(53)), "");
  EXPECT_EQ(policy.why_end(damaged), "");
  EXPECT_EQ(policy.failures().back().goes_back_to, -1);
  EXPECT_NE(policy.why_end(damaged), "") << "it comes again";
}

TEST(RestartPolicy, DoesNotGoBackIfNoOlderCheckpointIsThere) {
  for (const auto& [resumed_step, older_step] :
       {std::pair<int64_t, int64_t>{-1, -1}, {40, -1}, {0, -1}}) {
    RestartPolicy policy(1000);
    const auto failure = resumed_from(failed_after(53, "a"), resumed_step, older_step);
    EXPECT_EQ(policy.why_end(failure), "");
    const std::string why = policy.why_end(failure);
    EXPECT_NE(why.find("twice in the same way"), std::string::npos) << why;
    EXPECT_EQ(policy.failures().back().goes_back_to, -1);
  }
}

// A job that gets farther than before may go back again.
TEST(RestartPolicy, GoesBackAgainAfterNewSteps) {
  RestartPolicy policy(1000);
  for (int64_t step = 100; step <= 500; step += 100) {
    const auto failure = resumed_from(failed_after(step, "a"), step - 10, step - 20);
    EXPECT_EQ(policy.why_end(failure), "");
    EXPECT_EQ(policy.why_end(failure), "");
    EXPECT_EQ(policy.failures().back().goes_back_to, step - 11);
  }
}

// Steps whose gradient is not finite do not count as new steps, even if a checkpoint was saved
// meanwhile. The epoch of the first failure began long before, so its checkpoint is not suspected.
TEST(RestartPolicy, GoesBackBeforeTheFirstStepWithoutFiniteNumbers) {
  RestartPolicy policy(1000);
  EXPECT_EQ(policy.why_end(diverged_after(53, 5)), "");
  EXPECT_EQ(policy.why_end(diverged_after(82, 50)), "");
  EXPECT_EQ(policy.failures().back().goes_back_to, 49) << "before all starts that have failed";
}

TEST(RestartPolicy, BlamesTheSamplesBeforeTheCheckpoint) {
  RestartPolicy stops(1000), skips(1000, true);
  const auto failure = resumed_from(failed_with(28, 7), 5, 4);
  for (RestartPolicy* policy : {&stops, &skips}) {
    EXPECT_EQ(policy->why_end(failure), "");
    EXPECT_EQ(policy->why_end(failure).empty(), policy == &skips);
    EXPECT_EQ(policy->failures().back().goes_back_to, -1);
  }
  EXPECT_EQ(skips.left_out(), (std::vector<SampleRange>{{28, 4}}));
  // Other samples fail in the same way, so the first ones are taken back.
  EXPECT_EQ(skips.why_end(resumed_from(failed_with(32, 7), 5, 4)), "");
  EXPECT_EQ(skips.failures().back().goes_back_to, 4);
  EXPECT_TRUE(skips.left_out().empty());
}

TEST(RestartPolicy, CountsTheFailuresOfAnHour) {
  RestartPolicy often(10);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(often.why_end(killed_after(i + 1, 60 * i)), "");
  EXPECT_NE(often.why_end(killed_after(11, 600)), "");
  RestartPolicy seldom(10);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seldom.why_end(killed_after(i + 1, 361 * i)), "");
}

}  // namespace
}  // namespace trireme
