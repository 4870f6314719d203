#include "cli/upkeep_line.h"

#include <gtest/gtest.h>

#include <sstream>

namespace trireme {
namespace {

UpkeepProgress progress(uint64_t done, uint64_t ms) {
  return {.kind = UpkeepKind::Repair, .done = done, .total = 48, .bytes = done << 20, .ms = ms};
}

TEST(UpkeepLine, SaysHowMuchIsDoneOfHowMuchAndHowFast) {
  const std::vector<std::string> parts = parts_of(progress(12, 2000));
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0], "repair 12/48 blocks");
  EXPECT_NE(parts[2].find("/s"), std::string::npos);
  EXPECT_NE(parts[3].find("left"), std::string::npos);
  EXPECT_DOUBLE_EQ(bytes_per_s(progress(12, 2000)), 6.0 * (1 << 20));
  EXPECT_EQ(parts_of(progress(48, 8000)).size(), 3u);
}

TEST(UpkeepLine, ShortWorkPrintsNothing) {
  std::ostringstream out, err;
  CommandIo io{.out = out, .err = err};
  UpkeepLine line(io);
  const OnProgress tell = line.on_progress();
  EXPECT_TRUE(tell(progress(1, 400)).ok());
  EXPECT_TRUE(tell(progress(2, 999)).ok());
  line.finish();
  EXPECT_EQ(err.str(), "");
  EXPECT_TRUE(tell(progress(3, 1000)).ok());
  EXPECT_NE(err.str().find("repair 3/48 blocks"), std::string::npos) << err.str();
}

}  // namespace
}  // namespace trireme
