#include "cli/bench_comm_command.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "base/json_text.h"

namespace trireme {
namespace {

nlohmann::json bench(BenchCommOptions options) {
  options.json = true;
  std::ostringstream out;
  const Status status = run_bench_comm(options, out);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return parse_json(out.str());
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

// Every algorithm sends what its closed form says.
TEST(BenchComm, TheTableHasTheBytesOfTheClosedForms) {
  for (const char* op : {"all_reduce", "all_gather"}) {
    std::ostringstream out;
    ASSERT_TRUE(run_bench_comm({.op = op, .ranks = 3, .table = true, .json = true}, out).ok());
    std::istringstream lines(out.str());
    int num_rows = 0;
    for (std::string line; std::getline(lines, line); ++num_rows) {
      const auto row = parse_json(line);
      EXPECT_EQ(row["formula_bytes"], row["sent_bytes"]) << line;
      const bool sends_messages = row["algorithm"] != "shared";
      EXPECT_EQ(row.value("priced_s", 0.0) > 0.0, sends_messages) << line;
      EXPECT_GT(row["seconds_median"], 0.0);
    }
    EXPECT_GE(num_rows, 2 * 4 * 3);
  }
}

// Counts how often the written text is flushed.
struct CountedFlushes : std::stringbuf {
  int sync() override { return ++count, 0; }
  int count = 0;
};

TEST(BenchComm, TheTableOfStatedElementsHasOneLineOfEachAlgorithmAndShowsItAtOnce) {
  CountedFlushes text;
  std::ostream out(&text);
  const BenchCommOptions options{.ranks = 3, .elements = 1000, .table = true, .json = true};
  ASSERT_TRUE(run_bench_comm(options, out).ok());
  std::istringstream lines(text.str());
  std::set<std::pair<int, std::string>> seen;
  for (std::string line; std::getline(lines, line);) {
    const auto row = parse_json(line);
    EXPECT_EQ(row["bytes"], 4000);
    EXPECT_TRUE(seen.emplace(row["ranks"], row["algorithm"]).second) << line;
  }
  EXPECT_GE(seen.size(), 4u);
  for (const int ranks : {2, 3}) EXPECT_TRUE(seen.count({ranks, "shared"}));
  EXPECT_EQ(text.count, int(seen.size()));
}

TEST(BenchComm, TheTableSaysWhyTheOtherAlgorithmsHaveNoRows) {
  std::ostringstream out;
  ASSERT_TRUE(run_bench_comm({.ranks = 2, .elements = 100, .table = true}, out).ok());
  const std::string text = out.str();
  const size_t end_of_rows = text.find("\n\n");
  ASSERT_NE(end_of_rows, std::string::npos) << text;
  for (const std::string name : {"auto", "canonical", "native"}) {
    EXPECT_GT(text.find(name), end_of_rows) << text;
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

TEST(BenchComm, RefusesWhatHasNoMeaning) {
  std::ostringstream out;
  for (const BenchCommOptions& options :
       {BenchCommOptions{.op = "all_redcue"}, BenchCommOptions{.algorithm = "rings"},
        BenchCommOptions{.dtype = "fp8"}, BenchCommOptions{.ranks = 0},
        BenchCommOptions{.op = "all_gather", .algorithm = "tree"},
        BenchCommOptions{.op = "broadcast", .root = 2}, BenchCommOptions{.backend = "tcp"},
        BenchCommOptions{.algorithm = "native"}, BenchCommOptions{.ranks = 1, .table = true},
        BenchCommOptions{.backend = "mpi", .table = true}}) {
    const Status status = run_bench_comm(options, out);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::Usage);
  }
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace trireme
