#include "cli/schedule_command.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
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

// Returns the number behind ` name="` in the attributes of an element.
double attribute(const std::string& attributes, const std::string& name, double otherwise) {
  const std::string key = name + "=\"";
  const size_t at = attributes.find(key);
  return at == std::string::npos ? otherwise : std::stod(attributes.substr(at + key.size()));
}

// Returns the texts of a picture that may reach beyond its edges. The widths of glyphs are not
// known here: a letter of a sans-serif font is about half as wide as the font is high, and bold
// ones are a bit wider.
std::vector<std::string> clipped_texts(const std::string& svg) {
  const double width = attribute(svg, " width", 0), height = attribute(svg, " height", 0);
  EXPECT_NE(svg.find(fmt::format("viewBox=\"0 0 {:.0f} {:.0f}\"", width, height)),
            std::string::npos);
  std::vector<std::string> clipped;
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  for (size_t at = svg.find("<text "); at != std::string::npos; at = svg.find("<text ", at + 1)) {
    const size_t middle = svg.find('>', at), end = svg.find("</text>", at);
    const std::string attributes = svg.substr(at, middle - at);
    const std::string text = svg.substr(middle + 1, end - middle - 1);
    const double size = attribute(attributes, "font-size", 12);
    const double length = (has(attributes, "\"600\"") ? 0.6 : 0.55) * size * double(text.size());
    const bool is_centred = has(attributes, "middle") || has(attributes, "class=\"n\"");
    const double before = is_centred ? length / 2 : has(attributes, "\"end\"") ? length : 0;
    const double left = attribute(attributes, " x", 0) - before;
    const double y = attribute(attributes, " y", 0);
    const bool is_inside =
        left >= 0 && left + length <= width && y - size >= 0 && y + 0.3 * size <= height;
    if (!is_inside) clipped.push_back(text);
  }
  return clipped;
}

// The smallest shapes have the narrowest pictures, and long ones the longest numbers.
TEST(ScheduleCommand, NoTextOfAPictureIsClipped) {
  std::vector<std::string> kinds = schedule_kinds();
  kinds.emplace_back("auto");
  const OpDurations times[] = {
      {}, {0.123456, 0.234567, 0.345678, 0.0456789}, {1e-7, 2e-7, 1e-7, 0}};
  for (const std::string& kind : kinds) {
    const bool has_chunks = kind == "interleaved";
    for (const auto& [stages, microbatches] : {std::pair{2, 4}, {4, 8}, {4, 40}, {12, 24}}) {
      if (kind == "auto" && microbatches > 8) continue;  // its search takes long
      for (const OpDurations& time : times) {
        ScheduleOptions options{.kind = kind,
                                .num_stages = stages,
                                .num_microbatches = microbatches,
                                .num_chunks = has_chunks ? 3 : 0,
                                .times = time,
                                .format = ScheduleFormat::Svg};
        EXPECT_EQ(clipped_texts(output(options)), std::vector<std::string>())
            << kind << " " << stages << " " << microbatches << " " << time.f;
      }
    }
  }
  std::ostringstream out;
  const ScheduleOptions options{
      .kind = "", .num_stages = 4, .num_microbatches = 8, .format = ScheduleFormat::Svg};
  ASSERT_TRUE(
      compare_schedules("gpipe,1f1b,interleaved,zb_h1,zb_v,dualpipe,dualpipev", options, out).ok());
  EXPECT_EQ(clipped_texts(out.str()), std::vector<std::string>());
}

// The two numbers of an overlapped pair stand above each other in one box of 22 pixels.
TEST(ScheduleCommand, NumbersOfAPictureCanBeRead) {
  for (const char* kind : {"dualpipe", "1f1b"}) {
    const std::string svg = output(
        {.kind = kind, .num_stages = 8, .num_microbatches = 20, .format = ScheduleFormat::Svg});
    const std::regex size_of_font("font-size[=:] ?\"?([0-9]+)");
    int num_sizes = 0;
    for (std::sregex_iterator size(svg.begin(), svg.end(), size_of_font), end; size != end;
         ++size, ++num_sizes) {
      EXPECT_GE(std::stoi((*size)[1]), 11) << kind;
    }
    EXPECT_GE(num_sizes, 3) << "of the page, its title and the numbers";
  }
  const std::string pairs = output(
      {.kind = "dualpipe", .num_stages = 8, .num_microbatches = 20, .format = ScheduleFormat::Svg});
  const auto count = [&](const std::string& part) {
    size_t found = 0;
    for (size_t at = pairs.find(part); at != std::string::npos; at = pairs.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  // Each of 20 micro-batches has a forward and a backward on each of 8 ranks, and W of its own
  // where the backward is split.
  EXPECT_GE(count("<text class=\"n\""), 20u * 8 * 2);
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
