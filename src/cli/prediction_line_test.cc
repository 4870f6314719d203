#include "cli/prediction_line.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(PredictionLine, SaysInTheSameWordsHowMuchLongerOrShorterAStepIs) {
  EXPECT_EQ(
      prediction_line({.predicted_s = 1.0, .measured_s = 1.5}),
      "step       1.00 s predicted, 1.50 s measured (median): 50.0 % longer than predicted\n");
  EXPECT_EQ(
      prediction_line({.predicted_s = 1.0, .measured_s = 4.9}),
      "step       1.00 s predicted, 4.90 s measured (median): 390.0 % longer than predicted\n");
  EXPECT_EQ(
      prediction_line({.predicted_s = 2.0, .measured_s = 1.5}),
      "step       2.00 s predicted, 1.50 s measured (median): 25.0 % shorter than predicted\n");
}

// A prediction within the range of what the step may take without others is no difference. This
// holds for every load, so a shorter and a longer step are never both claimed.
TEST(PredictionLine, ComparesWithTheRangeOfWhatOthersLeave) {
  const auto line = [](double predicted_s, double measured_s) {
    return prediction_line({predicted_s, measured_s, 0.5, 0.5});
  };
  EXPECT_EQ(line(1.5, 2.0),
            "step       1.50 s predicted, 2.00 s measured (median); others took 50 % of the cores, "
            "so with all of them it would take 1.00 s to 2.00 s: as predicted\n");
  for (const double predicted_s : {1.0, 1.2, 1.8, 2.0}) {
    EXPECT_TRUE(line(predicted_s, 2.0).ends_with(": as predicted\n")) << line(predicted_s, 2.0);
  }
  EXPECT_TRUE(line(0.5, 2.0).ends_with(": at least 100.0 % longer than predicted\n"));
  EXPECT_TRUE(line(4.0, 2.0).ends_with(": at least 50.0 % shorter than predicted\n"));
}

TEST(PredictionLine, SaysNothingOfUnknownTimes) {
  EXPECT_EQ(prediction_line({.predicted_s = 1.0}), "");
  EXPECT_EQ(prediction_line({.measured_s = 1.0}), "");
}

}  // namespace
}  // namespace trireme
