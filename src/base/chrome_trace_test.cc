#include "base/chrome_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.h"

namespace trireme {
namespace {

TEST(ChromeTraceWriter, WritesJsonWhateverTheNames) {
  std::ostringstream out;
  {
    ChromeTraceWriter writer(out);
    writer.name_process(0, "a \"quoted\"\\ name\n");
    writer.name_track({0, 3}, "rank 3");
    writer.complete({0, 3}, "F0", "F", 1.5, 2.0, R"("stage":3)");
    writer.arrow(7, {0, 3}, 2.0, {0, 4}, 2.5);
    writer.counter(0, "live", 2.0, 4);
  }
  const nlohmann::json trace = parse_json(out.str());
  const nlohmann::json& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events[0]["args"]["name"], "a \"quoted\"\\ name\n");
  EXPECT_EQ(events[3]["ts"], 1.5e6);
  EXPECT_EQ(events[3]["dur"], 0.5e6);
  EXPECT_EQ(events[3]["args"]["stage"], 3);
}

TEST(ChromeTraceWriter, AnEmptyTraceIsValid) {
  std::ostringstream out;
  { ChromeTraceWriter writer(out); }
  EXPECT_TRUE(parse_json(out.str())["traceEvents"].empty());
}

}  // namespace
}  // namespace trireme
