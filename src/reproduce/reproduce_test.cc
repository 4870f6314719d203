#include "reproduce/reproduce.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme {
namespace {

// What each table's errors may be. A bound is tightened as soon as the prices reach a better one.
struct Bound {
  const char* name;
  size_t num_rows;
  double mean_abs, max_abs;
};

constexpr Bound kBounds[] = {
    {"megatron-t1", 10, 0.27, 0.40},
    {"korthikanti-t5", 8, 0.15, 0.30},
    {"zero-bubble-t5", 36, 0.0, 0.0},
};

TEST(Reproduce, EveryTableKeepsItsBound) {
  ASSERT_EQ(std::size(kBounds), reproduction_names().size());
  for (const Bound& bound : kBounds) {
    const Result<Reproduction> result = reproduce(bound.name);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->table.rows.size(), bound.num_rows) << bound.name;
    const ErrorSummary errors = result->table.errors();
    EXPECT_LE(errors.mean_abs, bound.mean_abs) << bound.name;
    EXPECT_LE(errors.max_abs, bound.max_abs) << bound.name;
    EXPECT_LE(std::abs(errors.bias), errors.mean_abs) << bound.name;
  }
}

TEST(Reproduce, EveryTableNamesItsSourceAndItsRows) {
  for (const std::string& name : reproduction_names()) {
    const Reproduction result = reproduce(name).value();
    EXPECT_EQ(result.name, name);
    EXPECT_NE(result.source.find("20"), std::string::npos) << name;  // its year
    std::set<std::string> labels;
    for (const ReproducedRow& row : result.table.rows) {
      EXPECT_GT(row.measured, 0.0) << name;
      EXPECT_TRUE(labels.insert(row.row).second) << name << ": two rows " << row.row;
      if (row.time) {
        EXPECT_EQ(row.time->step, row.predicted);
      }
    }
  }
}

TEST(Reproduce, SuggestsTheNearestName) {
  const Result<Reproduction> refused = reproduce("megatron-t2");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
  EXPECT_NE(refused.error().message.find("did you mean 'megatron-t1'"), std::string::npos);
}

}  // namespace
}  // namespace trireme
