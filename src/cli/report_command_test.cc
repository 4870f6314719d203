#include "cli/command_fixture.h"

namespace trireme {
namespace {

class ReportCommand : public CommandTest {};

TEST_F(ReportCommand, MakesTheFolderOfThePage) {
  succeed({"train", "tiny.toml", "--set", "run.steps=1", "--set", "run.threads_per_rank=1", "--out",
           "run"});
  EXPECT_EQ(succeed({"report", "run", "--out", "pages/of/run.html"}), "pages/of/run.html\n");
  EXPECT_TRUE(std::filesystem::exists("pages/of/run.html"));
}

}  // namespace
}  // namespace trireme
