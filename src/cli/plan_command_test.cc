#include "cli/plan_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

namespace trireme {
namespace {

using Json = nlohmann::json;

const std::filesystem::path kRoot = std::filesystem::path(__FILE__).parent_path() / ".." / "..";

// Returns the JSON that `plan` prints for dp ranks on a described cluster.
Result<Json> printed(int dp, std::optional<int> rank) {
  std::ostringstream out, err;
  CommandIo io{out, err};
  PlanOptions options{.cluster = (kRoot / "clusters" / "dgx-h100.toml").string(), .json = true};
  options.config.files = {(kRoot / "configs" / "tiny-gpt2.toml").string()};
  options.config.overrides = {"parallel.dp=" + std::to_string(dp), "parallel.pp=2",
                              "parallel.zero=2", "batch.micro_sequences=1",
                              "batch.global_sequences=" + std::to_string(2 * dp)};
  options.rank = rank;
  TRIREME_TRY(code, run_plan(options, io));
  EXPECT_EQ(code, 0);
  return Json::parse(out.str());
}

// Classes count every rank once. Each listed rank equals what --rank prints for it and what one of
// the classes says.
TEST(PlanCommand, PrintsClassesAndListsUpToSixtyFourRanks) {
  for (const int dp : {4, 32, 33}) {
    const Json plan = printed(dp, std::nullopt).value();
    for (const char* key : {"step", "tokens_per_s", "mfu", "peak"}) {
      EXPECT_GT(plan[key].get<double>(), 0.0) << key;
    }
    int num_ranks = 0;
    for (const Json& alike : plan["classes"]) num_ranks += alike["ranks"].get<int>();
    EXPECT_EQ(num_ranks, 2 * dp);
    EXPECT_EQ(plan.contains("ranks"), 2 * dp <= 64);
    if (!plan.contains("ranks")) continue;
    ASSERT_EQ(plan["ranks"].size(), size_t(2 * dp));
    EXPECT_EQ(printed(dp, 5).value(), plan["ranks"][5]);
    for (const Json& alike : plan["classes"]) {
      const Json& first = plan["ranks"][alike["first"].get<size_t>()];
      for (const char* key : {"coords", "memory", "traffic", "time"}) {
        EXPECT_EQ(alike[key], first[key]) << key;
      }
    }
  }
}

TEST(PlanCommand, RefusesARankThatIsNotThere) {
  EXPECT_TRUE(printed(2, 3).ok());
  for (const int rank : {-1, 4}) {
    const Result<Json> refused = printed(2, rank);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
    EXPECT_NE(refused.error().message.find("ranks 0 to 3"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme
