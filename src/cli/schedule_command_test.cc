#include "cli/schedule_command.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.h"
#include "cli/compare_schedules.h"
#include "program/make_schedule.h"

namespace trireme {
namespace {

std::string output(const ScheduleOptions& options) {
  std::ostringstream out;
  const Status status = run_schedule(options, out);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return out.str();
}

TEST(ScheduleCommand, PrintsEveryKindInEveryFormat) {
  std::vector<std::string> kinds = schedule_kinds();
  kinds.emplace_back("auto");
  for (const std::string& kind : kinds) {
    ScheduleOptions options{.kind = kind, .num_stages = 4, .num_microbatches = 8};
    EXPECT_NE(output(options).find("\nrank 3: "), std::string::npos) << kind;
    options.format = ScheduleFormat::Jsonl;
    std::istringstream lines(output(options));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      EXPECT_NO_THROW(std::ignore = parse_json(line)) << kind;
    }
    EXPECT_EQ(count, 5);
    options.format = ScheduleFormat::Trace;
    EXPECT_NO_THROW(std::ignore = parse_json(output(options))) << kind;
    options.format = ScheduleFormat::Svg;
    EXPECT_EQ(output(options).rfind("<svg", 0), 0u) << kind;
  }
}

TEST(ScheduleCommand, RefusesWithoutWritingAnything) {
  for (const ScheduleOptions& options :
       {ScheduleOptions{.kind = "atuo"}, ScheduleOptions{.kind = "dualpipe", .num_stages = 3},
        ScheduleOptions{.kind = "1f1b", .num_stages = -4},
        ScheduleOptions{.kind = "auto", .num_stages = 4, .num_microbatches = 0}}) {
    std::ostringstream out;
    EXPECT_FALSE(run_schedule(options, out).ok());
    EXPECT_TRUE(out.str().empty());
  }
  std::ostringstream out;
  const Status status = run_schedule({.kind = "atuo"}, out);
  EXPECT_NE(status.error().message.find("did you mean 'auto'"), std::string::npos);
}

// A rank has 1/P of the model in every schedule, so the time that it works is the same.
TEST(CompareSchedules, CountsInTimesOfAWholeStage) {
  const ScheduleOptions options{.kind = "", .num_stages = 4, .num_microbatches = 8};
  std::ostringstream out;
  ASSERT_TRUE(compare_schedules("1f1b,interleaved,zb_v,dualpipe", options, out).ok());
  for (const char* row : {"1f1b                33   27.3%            4        once        48",
                          "interleaved       28.5   15.8%          5.5        once       112",
                          "dualpipe            26    7.7%            5       twice        48"}) {
    EXPECT_NE(out.str().find(row), std::string::npos) << out.str();
  }
}

TEST(CompareSchedules, DrawsOneAboveTheOther) {
  const ScheduleOptions options{
      .kind = "", .num_stages = 4, .num_microbatches = 8, .format = ScheduleFormat::Svg};
  std::ostringstream out;
  ASSERT_TRUE(compare_schedules("1f1b,dualpipe", options, out).ok());
  EXPECT_NE(out.str().find(">1f1b: 33 long"), std::string::npos);
  EXPECT_NE(out.str().find(">dualpipe: 26 long"), std::string::npos);
  EXPECT_NE(out.str().find(">30</text>"), std::string::npos) << "the axis ends on a round number";
}

TEST(CompareSchedules, RefusesUnknownKindsAndFormats) {
  for (const char* kinds : {"1f1b,gpip", "1f1b,", ",", "1f1b,,gpipe"}) {
    std::ostringstream out;
    EXPECT_FALSE(compare_schedules(kinds, {.kind = "", .num_stages = 2}, out).ok()) << kinds;
    EXPECT_TRUE(out.str().empty());
  }
  std::ostringstream out;
  EXPECT_FALSE(
      compare_schedules("1f1b", {.kind = "", .num_stages = 2, .format = ScheduleFormat::Html}, out)
          .ok());
}

TEST(ScheduleCommand, ParsesTimesAndFormats) {
  const Result<OpDurations> times = parse_schedule_times("1,2.5,1e-3,0");
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->b, 2.5);
  EXPECT_EQ(times->w, 1e-3);
  for (const char* bad : {"", "1,2,3", "1,2,3,4,5", "1,2,3,-1", "1,2,3,nan", "1,2,3,inf", "1,2,3,x",
                          "1,,2,3", "1,2,3,4 ", "1e999,1,1,0"}) {
    const Result<OpDurations> refused = parse_schedule_times(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
  }
  EXPECT_EQ(parse_schedule_format("svg").value(), ScheduleFormat::Svg);
  EXPECT_NE(parse_schedule_format("json").error().message.find("jsonl"), std::string::npos);
}

}  // namespace
}  // namespace trireme
