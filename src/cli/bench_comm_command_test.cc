#include "cli/bench_comm_command.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace trireme {
namespace {

nlohmann::json bench(BenchCommOptions options) {
  options.json = true;
  std::ostringstream out;
  const Status status = run_bench_comm(options, out);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return nlohmann::json::parse(out.str());
}

TEST(BenchComm, ReportsRoundsAndBytesOfThePublishedExamples) {
  const auto ring = bench({.algorithm = "ring", .ranks = 6, .elements = 100});
  EXPECT_EQ(ring["rounds"], 10);
  EXPECT_EQ(ring["sent_bytes"], nlohmann::json({664, 664, 668, 672, 668, 664}));
  EXPECT_EQ(ring["correct"], true);
  EXPECT_GT(ring["seconds_median"].get<double>(), 0);
  const auto halving =
      bench({.algorithm = "halving_doubling", .ranks = 6, .elements = 48, .dtype = "bf16"});
  EXPECT_EQ(halving["sent_bytes"], nlohmann::json({96, 240, 96, 240, 144, 144}));
  const auto flat =
      bench({.algorithm = "hierarchical", .ranks = 4, .elements = 64, .ranks_per_node = 2});
  EXPECT_EQ(flat["rounds"], 4);
  const auto alone = bench({.algorithm = "naive", .ranks = 1, .elements = 5});
  EXPECT_EQ(alone["rounds"], 0);
  EXPECT_EQ(alone["sent_bytes"], nlohmann::json({0}));
}

TEST(BenchComm, RefusesWhatHasNoMeaning) {
  std::ostringstream out;
  for (const BenchCommOptions& options :
       {BenchCommOptions{.op = "all_redcue"}, BenchCommOptions{.algorithm = "rings"},
        BenchCommOptions{.dtype = "fp8"}, BenchCommOptions{.ranks = 0},
        BenchCommOptions{.op = "all_gather", .algorithm = "tree"},
        BenchCommOptions{.op = "broadcast", .root = 2}, BenchCommOptions{.backend = "tcp"},
        BenchCommOptions{.algorithm = "native"}}) {
    const Status status = run_bench_comm(options, out);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::Usage);
  }
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace trireme
