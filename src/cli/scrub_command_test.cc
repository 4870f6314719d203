#include "cli/scrub_command.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.h"
#include "checkpoint/checkpoint_fixture.h"

namespace trireme {
namespace {

class ScrubCommandTest : public FolderTest {
 protected:
  ScrubCommandTest() {
    std::filesystem::create_directories(root() + "/run/checkpoints");
    for (const int step : {1, 2}) {
      EXPECT_TRUE(SmallState(step).save(root() + "/run/checkpoints").ok());
    }
  }
  Result<int> scrub(const std::string& folder, bool json = false) {
    out_.str("");
    return run_scrub({.folders = {folder}, .threads = 1, .json = json}, io_);
  }

  std::ostringstream out_, err_;
  CommandIo io_{.out = out_, .err = err_};
};

TEST_F(ScrubCommandTest, ExitsWithZeroIfAllIsIntactAndIsDamagedElse) {
  EXPECT_EQ(scrub(root() + "/run").value(), 0);
  EXPECT_NE(out_.str().find("2 intact, 0 repaired, 0 damaged"), std::string::npos) << out_.str();
  std::ofstream(root() + "/run/checkpoints/step-000002/index.json", std::ios::app) << " ";
  const Result<int> found = scrub(root() + "/run", /*json=*/true);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::Damaged);
  EXPECT_NE(found.error().message.find("intact is " + root() + "/run/checkpoints/step-000001"),
            std::string::npos)
      << found.error().message;
  const auto json = parse_json(out_.str());
  EXPECT_EQ(json["checkpoints"][0]["state"], "intact");
  EXPECT_EQ(json["checkpoints"][1]["state"], "damaged");
  EXPECT_EQ(json["damaged"], 1);
}

TEST_F(ScrubCommandTest, AFolderWithoutCheckpointsIsWrongUsage) {
  for (const std::string& folder : {root(), root() + "/nowhere"}) {
    const Result<int> found = scrub(folder);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().kind, ErrorKind::Usage);
  }
}

}  // namespace
}  // namespace trireme
