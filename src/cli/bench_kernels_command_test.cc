#include "cli/bench_kernels_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/json_text.h"
#include "cli/command_table.h"
#include "cli/repository.h"
#include "kernels/bench.h"

namespace trireme {
namespace {

class BenchKernels : public testing::Test {
 protected:
  Result<int> run(const BenchKernelsOptions& options) {
    CommandIo io{.out = out_, .err = err_};
    return run_bench_kernels(options, io);
  }

  std::ostringstream out_, err_;
};

TEST_F(BenchKernels, EveryRowSaysWhatItCountsAndItsShareOfTheCeiling) {
  ASSERT_TRUE(run({.family = "matmul", .filter = "768x128x128", .threads = 1, .json = true}).ok());
  ASSERT_TRUE(run({.family = "rope", .threads = 1, .json = true}).ok());
  std::istringstream lines(out_.str());
  int num_rows = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto json = parse_json(line);
    EXPECT_EQ(json["threads"], 1);
    for (const auto& row : json["rows"]) {
      ++num_rows;
      SCOPED_TRACE(json_text(row));
      const double rate = double(row["count"]) / double(row["seconds"]);
      EXPECT_DOUBLE_EQ(row["rate"], rate);
      EXPECT_DOUBLE_EQ(row["share_of_ceiling"], rate / double(row["ceiling"]));
      EXPECT_FALSE(std::string(row["formula"]).empty());
      const auto& ceilings = json["ceilings"][std::string(row["family"])];
      if (row["unit"] == "byte/s") {
        EXPECT_EQ(row["ceiling"], ceilings["copy_bytes_per_s"]);
      } else {
        EXPECT_EQ(row["unit"], "FLOP/s");
        EXPECT_EQ(row["ceiling"],
                  ceilings[row["dtype"] == "bf16" ? "bf16_flops_per_s" : "fp32_flops_per_s"]);
      }
    }
  }
  // A product with its sum, two forms and two dtypes of this shape, and two rows of rope.
  EXPECT_GE(num_rows, 6);
}

// Every folder of src/kernels is a family. It has a benchmark, and --family takes its name.
TEST_F(BenchKernels, EveryFamilyOfKernelsIsListedAndTaken) {
  std::set<std::string> folders, listed;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "src/kernels")) {
    if (entry.is_directory()) folders.insert(entry.path().filename().string());
  }
  for (const BenchFamily& family : bench_families()) listed.insert(family.name);
  EXPECT_EQ(listed, folders);
  const Command bench = bench_command();
  for (const std::string& family : folders) {
    const std::string args[] = {"kernels", "--family", family};
    const auto parsed = parse_arguments(bench, args);
    EXPECT_TRUE(parsed.ok()) << family;
  }
}

TEST_F(BenchKernels, AFilterThatNamesNothingIsWrongUsageAndPrintsNothing) {
  const Result<int> result = run({.family = "rope", .filter = "no such kernel", .threads = 1});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::Usage);
  EXPECT_NE(result.error().message.find("attention"), std::string::npos);
  EXPECT_EQ(out_.str(), "");
}

}  // namespace
}  // namespace trireme
