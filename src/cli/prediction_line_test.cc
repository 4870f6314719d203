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

TEST(PredictionLine, ComparesTheTimeThatOthersHaveLeft) {
  EXPECT_EQ(prediction_line({1.0, 2.0, 0.5, 0.5}),
            "step       1.00 s predicted, 2.00 s measured (median); others took 50 % of the cores, "
            "so 50 % "
            "of this time is compared: 0.0 % longer than predicted\n");
}

TEST(PredictionLine, SaysNothingOfUnknownTimes) {
  EXPECT_EQ(prediction_line({.predicted_s = 1.0}), "");
  EXPECT_EQ(prediction_line({.measured_s = 1.0}), "");
}

}  // namespace
}  // namespace trireme
