#include "observe/failure_timeline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.h"

namespace trireme {
namespace {

// Two starts of a run. In the second one, two failures shared a recovery, and another failure had
// its own.
std::string failure_line(int number, int rank, const char* kind, const char* cause) {
  return fmt::format(
      R"({{"event":"failure","step":7,"cause":"{}","class":"{}","rank":{},"epoch":1,"number":{}}})"
      "\n",
      cause, kind, rank, number);
}

std::string restart_line(double time_s, int redone_steps, const std::string& ms) {
  return fmt::format(
      R"({{"event":"restart","step":5,"time":{:.3f},"epoch":3,"redone_steps":{},"ms":{{{}}}}})"
      "\n",
      time_s, redone_steps, ms);
}

std::string surviving_run() {
  const std::string quick =
      R"("detect":0,"classify":1,"epoch":1,"join":1,"state":1,"first_step":1)";
  return "{\"event\":\"run\",\"step\":0,\"time\":90.000}\n" +
         failure_line(1, 0, "killed", "an old one") + restart_line(91.5, 1, quick) +
         "{\"event\":\"restart\",\"step\":4,\"time\":95.000}\n"
         "{\"event\":\"train\",\"step\":5,\"time\":96.000,\"loss\":1}\n" +
         failure_line(1, 3, "killed", "signal 9") + failure_line(2, 1, "hang", "silence") +
         restart_line(100.0, 2,
                      R"("detect":250.5,"classify":10,"epoch":12.25,"join":50,)"
                      R"("state":80,"first_step":500)") +
         failure_line(3, -1, "lost", "") + restart_line(102.0, 4, R"("detect":"?")") +
         failure_line(4, -1, "lost", "") + restart_line(104.0, 0, quick) +
         "{\"event\":\"failure\",\"ti";
}

TEST(FailureTimeline, ReadsWhatTheLastStartHasSurvived) {
  const std::vector<FailureTimeline> all = failure_timelines(surviving_run() + "\n");
  ASSERT_EQ(all.size(), 2u) << "the line with a wrong time is left out";
  EXPECT_EQ(all[0].name, "failure 1: rank 3 (killed), failure 2: rank 1 (hang)");
  EXPECT_EQ(all[0].cause, "silence");
  EXPECT_EQ(all[0].epoch, 3);
  EXPECT_EQ(all[0].redone_steps, 2);
  EXPECT_DOUBLE_EQ(all[0].detected_s, 99.5);
  EXPECT_DOUBLE_EQ(all[0].begin_ms, -250.5);
  ASSERT_EQ(all[0].phases.size(), 6u);
  EXPECT_EQ(all[0].phases[0].end_ms, 0.0);
  EXPECT_EQ(all[0].phases[2].end_ms, 12.25);
  EXPECT_EQ(all[0].phases[5].name, "first_step");
  EXPECT_EQ(all[0].phases[5].end_ms, 500.0);
  EXPECT_EQ(all[1].name, "failure 4: no rank known (lost)");
}

// The phases fill the box of a recovery without gaps, from the last step before the failure to the
// first one after it.
TEST(FailureTimeline, IsDrawnAsPhasesThatFillTheRecovery) {
  std::ostringstream text;
  {
    ChromeTraceWriter writer(text);
    write_failures(writer, failure_timelines(surviving_run()), 90.0);
  }
  const auto events = parse_json(text.str()).at("traceEvents");
  double at = 0.0, end = 0.0;
  int num_failures = 0, num_phases = 0;
  for (const auto& event : events) {
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts").get<double>(), length = event.at("dur").get<double>();
    if (event.at("cat") == "failure") {
      EXPECT_NEAR(at, end, 2e-3);
      at = begin;
      end = begin + length;
      if (num_failures++ == 0) {
        EXPECT_NEAR(end, 10e6, 2e-3);
      }
      continue;
    }
    ++num_phases;
    EXPECT_NEAR(begin, at, 2e-3) << event;
    EXPECT_NEAR(event.at("args").at("ms").get<double>(), length * 1e-3, 2e-3);
    at = begin + length;
  }
  EXPECT_NEAR(at, end, 2e-3);
  EXPECT_EQ(num_failures, 2);
  EXPECT_EQ(num_phases, 12);
}

}  // namespace
}  // namespace trireme
