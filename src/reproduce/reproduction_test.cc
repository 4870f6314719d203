#include "reproduce/reproduction.h"

#include <gtest/gtest.h>

#include "reproduce/printed_digits.h"

namespace trireme {
namespace {

std::vector<ReproducedRow> rows_of(const std::vector<std::pair<double, double>>& times) {
  std::vector<ReproducedRow> rows;
  for (const auto& [measured, predicted] : times) {
    rows.push_back(
        {.row = std::to_string(rows.size()), .measured = measured, .predicted = predicted});
  }
  return rows;
}

TEST(Reproduction, ErrorsAreRelativeToWhatWasMeasured) {
  ReproducedRows table;
  table.rows = rows_of({{2.0, 1.0}, {4.0, 5.0}, {8.0, 8.0}});
  const ErrorSummary errors = table.errors();
  EXPECT_DOUBLE_EQ(errors.mean_abs, 0.75 / 3.0);
  EXPECT_DOUBLE_EQ(errors.max_abs, 0.5);
  EXPECT_DOUBLE_EQ(errors.bias, -0.25 / 3.0);
  EXPECT_FALSE(table.errors_of(&ReproducedRow::constant));
  for (ReproducedRow& row : table.rows) row.constant = 2.0 * row.measured;
  EXPECT_DOUBLE_EQ(table.errors_of(&ReproducedRow::constant)->bias, 1.0);
}

TEST(Reproduction, RegretIsWhatTheChosenLayoutCostsMoreThanTheBest) {
  // The second row is predicted fastest, the third one was.
  const std::vector<ReproducedRow> rows = rows_of({{3.0, 2.0}, {2.5, 1.0}, {2.0, 1.5}});
  const LayoutRegret regret = regret_of(rows);
  EXPECT_EQ(regret.chosen, "1");
  EXPECT_EQ(regret.best, "2");
  EXPECT_DOUBLE_EQ(regret.regret, 0.25);
}

TEST(Reproduction, PartsKeepTheOrderOfTheRows) {
  Reproduction result;
  result.table.rows = rows_of({{1.0, 1.0}, {2.0, 2.0}, {3.0, 3.0}, {4.0, 4.0}});
  result.table.rows[0].part = result.table.rows[2].part = "b";
  result.table.rows[1].part = "a";
  EXPECT_EQ(result.parts(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(result.part("b").rows.size(), 2u);
}

TEST(Reproduction, ExactValuesGiveThePrintedDigitsWhetherRoundedOrCut) {
  EXPECT_EQ(as_printed(41.25, 1, 41.3), 41.3);
  EXPECT_EQ(as_printed(4187.5, 0, 4187), 4187);
  EXPECT_EQ(as_printed(80.0 / 12.0, 2, 6.66), 6.66);
  EXPECT_EQ(as_printed(80.0 / 3.25, 2, 24.62), 24.62);
  // Anything else stays wrong.
  EXPECT_NE(as_printed(41.36, 1, 41.3), 41.2);
  EXPECT_NE(as_printed(41.40, 1, 41.3), 41.3);
  EXPECT_NE(as_printed(41.19, 1, 41.3), 41.3);
}

}  // namespace
}  // namespace trireme
