#include "program/write_schedule.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.h"
#include "program/draw_svg.h"
#include "program/make_schedule.h"
#include "program/stage_graph.h"

namespace trireme {
namespace {

using nlohmann::json;

std::vector<json> jsonl_of(const Schedule& schedule, const OpDurations& durations) {
  std::ostringstream out;
  write_jsonl(out, schedule, durations);
  std::istringstream in(out.str());
  std::vector<json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(parse_json(line));
  return lines;
}

TEST(WriteJsonl, FollowsTheFormatToTheByte) {
  std::ostringstream out;
  write_jsonl(out, make_schedule("zb_h1", {1, 1}).value(), {1, 1.5, 0.1, 0});
  EXPECT_EQ(out.str(),
            R"({"meta":{"p":1,"m":1,"v":1,"layout":"loop","durations":{"F":1,"B":1.5,"W":0.1,)"
            R"("comm":0},"kind":"zb_h1"}})"
            "\n"
            R"({"rank":0,"ops":[{"op":"F","chunk":0,"microbatch":0},)"
            R"({"op":"B","chunk":0,"microbatch":0},{"op":"W","chunk":0,"microbatch":0}]})"
            "\n");
}

// Reading the lines back gives the same programs, for every kind.
TEST(WriteJsonl, HoldsEveryProgram) {
  for (const std::string& kind : schedule_kinds()) {
    const Schedule schedule = make_schedule(kind, {4, 12}).value();
    const std::vector<json> lines = jsonl_of(schedule, {1, 2, 3, 0.5});
    ASSERT_EQ(lines.size(), 5u);
    EXPECT_EQ(lines[0]["meta"]["v"], schedule.num_chunks);
    EXPECT_EQ(lines[0]["meta"]["layout"], name_of(schedule.placement));
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(lines[rank + 1]["rank"], rank);
      Program program;
      for (const json& op : lines[rank + 1]["ops"]) {
        const auto microbatch = [&](int chunk, int k) {
          return microbatches_of(schedule, chunk).first + k;
        };
        Action action{.chunk = op["chunk"],
                      .microbatch = microbatch(op["chunk"], op["microbatch"])};
        for (const ActionKind candidate :
             {ActionKind::F, ActionKind::B, ActionKind::W, ActionKind::BW, ActionKind::FB}) {
          if (op["op"] == name_of(candidate)) action.kind = candidate;
        }
        if (action.kind == ActionKind::FB) {
          action.chunk_b = op["chunk_b"];
          action.microbatch_b = microbatch(op["chunk_b"], op["microbatch_b"]);
        }
        program.push_back(action);
      }
      EXPECT_EQ(program, schedule.programs[rank]) << kind;
    }
  }
}

TEST(WriteJsonl, NumbersTheMicrobatchesOfDualpipePerDirection) {
  for (const json& line : jsonl_of(make_schedule("dualpipe", {2, 8}).value(), {})) {
    if (!line.contains("ops")) continue;
    for (const json& op : line["ops"]) EXPECT_LT(op["microbatch"], 4);
  }
}

Timeline one_second_each(const Schedule& schedule) {
  Timeline timeline;
  for (const Program& program : schedule.programs) {
    std::vector<Span>& row = timeline.emplace_back();
    for (size_t i = 0; i < program.size(); ++i) {
      row.push_back({static_cast<double>(i), static_cast<double>(i + 1)});
    }
  }
  return timeline;
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(DrawSvg, HasABoxPerActionAndALegendOfTheKindsInUse) {
  const Schedule schedule = make_schedule("zb_h1", {3, 5}).value();
  const Timeline timeline = one_second_each(schedule);
  const DrawnSchedule drawn{schedule, timeline, ""};
  std::ostringstream out;
  ASSERT_TRUE(draw_svg(out, {&drawn, 1}, {.title = "a < b", .lines = {"c"}, .unit = ""}).ok());
  const std::string svg = out.str();
  EXPECT_EQ(count(svg, "<title>"), 3u * 3 * 5);
  EXPECT_EQ(count(svg, "class=\"op\""), 3u * 3 * 5 + 3);  // and three boxes in the legend
  EXPECT_NE(svg.find("W weight gradient"), std::string::npos);
  EXPECT_EQ(svg.find("BW both"), std::string::npos);
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
}

TEST(DrawSvg, RefusesWhatNobodyCouldRead) {
  const Schedule schedule = make_schedule("1f1b", {64, 2048}).value();
  std::ostringstream out;
  const Timeline timeline;
  const DrawnSchedule drawn{schedule, timeline, ""};
  const Status status = draw_svg(out, {&drawn, 1}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::Usage);
  EXPECT_TRUE(out.str().empty());
}

TEST(WriteTrace, HasABoxPerActionAndAnArrowPerMessage) {
  const Schedule schedule = make_schedule("1f1b", {3, 4}).value();
  std::ostringstream out;
  {
    ChromeTraceWriter writer(out);
    write_trace(writer, schedule, one_second_each(schedule), 2, "simulated");
  }
  const json trace = parse_json(out.str());
  int boxes = 0;
  int starts = 0;
  for (const json& event : trace["traceEvents"]) {
    EXPECT_EQ(event["pid"], 2);
    boxes += event["ph"] == "X" ? 1 : 0;
    starts += event["ph"] == "s" ? 1 : 0;
  }
  EXPECT_EQ(boxes, 3 * 4 * 2);
  EXPECT_EQ(starts, 2 * 4 * (3 - 1));
}

}  // namespace
}  // namespace trireme
