#include "agent/restart_policy.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

TEST(RestartPolicy, CountsTheFailuresOfAnHour) {
  RestartPolicy often(10);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(often.why_end(killed_after(i + 1, 60 * i)), "");
  EXPECT_NE(often.why_end(killed_after(11, 600)), "");
  RestartPolicy seldom(10);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seldom.why_end(killed_after(i + 1, 361 * i)), "");
}

TEST(FailureLine, IsJsonWhateverARankHasSaid) {
  const JobFailure failure = failed_after(3, "a \"quoted\"\nline \x01");
  const auto json = nlohmann::json::parse(failure_line(failure, 2));
  EXPECT_EQ(json["event"], "failure");
  EXPECT_EQ(json["step"], 3);
  EXPECT_EQ(json["rank"], 2);
  EXPECT_EQ(json["number"], 2);
  EXPECT_EQ(json["cause"], "rank 2: a \"quoted\"\nline \x01");
}

}  // namespace
}  // namespace trireme
