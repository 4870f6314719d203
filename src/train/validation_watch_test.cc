#include "train/validation_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace trireme {
namespace {

struct Told {
  std::string text;
  int64_t step = 0;  // of the first message
  int count = 0;
};

// Validates after every tenth step. `train` and `val` have a loss for each validation.
Told watch(const std::vector<double>& train, const std::vector<double>& val,
           TrainPosition& position) {
  ValidationWatch watch;
  Told told;
  for (size_t i = 0; i < val.size(); ++i) {
    for (int step = 0; step < 10; ++step) watch.note_step(train[i]);
    const int64_t step = 10 * int64_t(i + 1);
    const std::string text = watch.see({step, val[i]}, position);
    if (text.empty()) continue;
    if (told.count++ == 0) told = {text, step, 1};
  }
  return told;
}

TEST(ValidationWatch, TheBestIsTheFirstWithTheLowestLossAndLaterOnesAreCounted) {
  TrainPosition position;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  watch({5, 4, 3, 3, 2}, {nan, 3.0, 2.5, 2.5, nan}, position);
  EXPECT_EQ(position.best_validation.step, 30);
  EXPECT_EQ(position.best_validation.loss, 2.5);
  EXPECT_EQ(position.validations_since_best, 2);
  EXPECT_EQ(position.last_validation.step, 50);
}

TEST(ValidationWatch, ARunThatResumesKnowsItsBest) {
  TrainPosition position;
  watch({5, 4}, {3.0, 2.0}, position);
  ValidationWatch after;
  after.see({30, 2.5}, position);
  EXPECT_EQ(position.best_validation.step, 20);
  EXPECT_EQ(position.validations_since_best, 1);
}

TEST(ValidationWatch, SaysOnceThatValidationRisesWhileTrainingFalls) {
  TrainPosition position;
  const Told told = watch({5, 4, 3, 2, 1}, {6.0, 5.9, 6.1, 6.5, 9.3}, position);
  EXPECT_EQ(told.count, 1);
  EXPECT_EQ(told.step, 40);
  for (const char* part :
       {"5.9000 at step 20", "6.5000 now", "3.0000 to 2.0000", "after step 20"}) {
    EXPECT_NE(told.text.find(part), std::string::npos) << told.text;
  }
}

TEST(ValidationWatch, IsSilentWithoutBoth) {
  const std::vector<std::vector<double>> falling = {{5, 4, 3, 2, 1}}, rising = {{1, 2, 3, 4, 5}};
  TrainPosition a, b, c;
  EXPECT_EQ(watch(falling[0], {6, 5, 4, 3, 2}, a).count, 0);             // both fall
  EXPECT_EQ(watch(rising[0], {6, 6.5, 7, 8, 9}, b).count, 0);            // both rise: it diverges
  EXPECT_EQ(watch(falling[0], {6, 6.01, 6.0, 6.02, 6.03}, c).count, 0);  // noise on a plateau
}

}  // namespace
}  // namespace trireme
