#include "sweep/swept_key.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "sweep/sweep_points.h"

namespace trireme {
namespace {

double number(const std::string& text) {
  double value = std::nan("");
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

SweptKey key_of(const std::string& text) {
  Result<SweptKey> key = parse_swept_key(text);
  EXPECT_TRUE(key.ok()) << text << ": " << key.error().message;
  return key.ok() ? *key : SweptKey{};
}

TEST(SweptKey, ALogRangeHasItsEndsExactlyAndOneRatio) {
  for (const auto& [ends, from, to] :
       {std::tuple{"1e-4..1e-2", 1e-4, 1e-2}, {"6e-5..3e-3", 6e-5, 3e-3}, {"0.1..0.3", 0.1, 0.3}}) {
    for (int count = 2; count <= 40; ++count) {
      const SweptKey key = key_of(fmt::format("optim.lr={}:log{}", ends, count));
      ASSERT_EQ(key.values.size(), size_t(count));
      EXPECT_EQ(number(key.values.front()), from);
      EXPECT_EQ(number(key.values.back()), to);
      const double ratio = std::pow(to / from, 1.0 / (count - 1));
      for (size_t i = 1; i < key.values.size(); ++i) {
        EXPECT_NEAR(number(key.values[i]) / number(key.values[i - 1]) / ratio, 1.0,
                    1.1e-5);  // six digits
      }
    }
  }
  EXPECT_EQ(key_of("optim.lr=1e-4..1e-2:log3").values,
            (std::vector<std::string>{"0.0001", "0.001", "0.01"}));
}

TEST(SweptKey, ALinearRangeHasItsEndsExactlyAndOneDifference) {
  for (int count = 2; count <= 40; ++count) {
    const SweptKey key = key_of(fmt::format("optim.weight_decay=0.05..0.7:lin{}", count));
    ASSERT_EQ(key.values.size(), size_t(count));
    EXPECT_EQ(number(key.values.front()), 0.05);
    EXPECT_EQ(number(key.values.back()), 0.7);
    for (size_t i = 1; i < key.values.size(); ++i) {
      EXPECT_NEAR(number(key.values[i]) - number(key.values[i - 1]), 0.65 / (count - 1), 1e-6);
    }
  }
}

TEST(SweptKey, AKeyOfIntegersGetsIntegers) {
  EXPECT_EQ(key_of("model.d_ff=64..512:log4").values,
            (std::vector<std::string>{"64", "128", "256", "512"}));
  EXPECT_EQ(key_of("model.layers=1..4:lin3").values, (std::vector<std::string>{"1", "3", "4"}));
  EXPECT_EQ(key_of("batch.global_tokens=1e5..1e6:log2").values,
            (std::vector<std::string>{"100000", "1000000"}));
}

TEST(SweptKey, AListTakesWordsAndWhatStandsInQuotesOrBrackets) {
  EXPECT_EQ(key_of("optim.name=adamw,sgd").values, (std::vector<std::string>{"adamw", "sgd"}));
  EXPECT_EQ(key_of("optim.frozen=\"a,b\",\"\\\",c\"").values,
            (std::vector<std::string>{"\"a,b\"", "\"\\\",c\""}));
  EXPECT_EQ(key_of("data.train=../a.tok,../b..c.tok").values,
            (std::vector<std::string>{"../a.tok", "../b..c.tok"}));
  EXPECT_EQ(key_of("data.train=[{path = \"a\"}, {path = \"b\"}],c").values.size(), 2u);
  EXPECT_EQ(key_of("optim.lr=1e-3").values, (std::vector<std::string>{"1e-3"}));
}

TEST(SweptKey, WhatCannotBeSaysWhatAndWhatToDo) {
  for (const auto& [text, part] : {std::pair{"optim.lr", "expected KEY=VALUES"},
                                   {"=1,2", "expected KEY=VALUES"},
                                   {"optim.lrr=1,2", "did you mean optim.lr?"},
                                   {"optim.lr=0..1:log5", "a log range has only numbers above 0"},
                                   {"optim.lr=-1..1:log5", "a log range has only numbers above 0"},
                                   {"optim.lr=1..1:log5", "the range is empty"},
                                   {"optim.lr=2..1:lin5", "write the lower end first"},
                                   {"optim.lr=1..2", "how its values are spaced"},
                                   {"optim.lr=1..2:exp5", "how its values are spaced"},
                                   {"optim.lr=1..2:log0", "1 to 1000 values, and not 0"},
                                   {"optim.lr=1..2:log-3", "1 to 1000 values, and not -3"},
                                   {"optim.lr=1..2:log1001", "1 to 1000 values"},
                                   {"optim.lr=1..2:log2.5", "is no number of values"},
                                   {"optim.lr=a..b:log5", "the ends of a range are numbers"},
                                   {"optim.lr=1..inf:lin5", "the ends of a range are numbers"},
                                   {"optim.lr=", "value 1 of the list is empty"},
                                   {"optim.lr=1,,2", "value 2 of the list is empty"},
                                   {"optim.lr=1,2,1", "1 is tried twice"},
                                   {"model.layers=1..2:lin5", "the key takes integers"}}) {
    const Result<SweptKey> key = parse_swept_key(text);
    ASSERT_FALSE(key.ok()) << text;
    EXPECT_EQ(key.error().kind, ErrorKind::Usage);
    EXPECT_NE(key.error().message.find(part), std::string::npos) << key.error().message;
    EXPECT_NE(key.error().message.find(text), std::string::npos) << key.error().message;
  }
}

TEST(SweepPoints, AGridHasEveryCombinationOnce) {
  const std::vector<SweptKey> keys = {key_of("optim.lr=1,2,3"), key_of("optim.name=adamw,sgd"),
                                      key_of("run.seed=1..4:lin4")};
  const auto points = grid_points(keys);
  ASSERT_TRUE(points.ok());
  EXPECT_EQ(points->size(), 24u);
  EXPECT_EQ(std::set<SweepPoint>(points->begin(), points->end()).size(), 24u);
  EXPECT_EQ((*points)[1], (SweepPoint{"1", "adamw", "2"}));
  EXPECT_EQ(overrides_of(keys, (*points)[1]),
            (std::vector<std::string>{"optim.lr=1", "optim.name=adamw", "run.seed=2"}));
}

TEST(SweepPoints, TooManyOrUnclearPointsAreRefused) {
  const auto error = [](const std::vector<SweptKey>& keys) { return grid_points(keys).error(); };
  EXPECT_NE(error({key_of("optim.lr=1..2:lin40"), key_of("run.seed=1..40:lin40")})
                .message.find("more than 1000 trials"),
            std::string::npos);
  EXPECT_NE(error({key_of("optim.lr=1..2:lin")}).message.find("write 1..2:lin5"),
            std::string::npos);
  EXPECT_NE(error({key_of("optim.lr=1"), key_of("optim.lr=2")}).message.find("swept twice"),
            std::string::npos);
  EXPECT_EQ(random_points({key_of("optim.lr=1,2")}, 0, 1).error().kind, ErrorKind::Usage);
  EXPECT_EQ(random_points({key_of("optim.lr=1,2")}, 1001, 1).error().kind, ErrorKind::Usage);
  EXPECT_NE(random_points({key_of("optim.lr=1,2")}, 3, 1).error().message.find("only 2 different"),
            std::string::npos);
}

TEST(SweepPoints, RandomPointsDependOnTheSeedAndOnTheirKeyAlone) {
  const SweptKey lr = key_of("optim.lr=1e-4..1e-2:log"), name = key_of("optim.name=adamw,sgd");
  const auto points = random_points({lr, name}, 50, 7).value();
  EXPECT_EQ(points, random_points({lr, name}, 50, 7).value());
  EXPECT_NE(points, random_points({lr, name}, 50, 8).value());
  const auto fewer = random_points({lr}, 20, 7).value();
  for (size_t i = 0; i < fewer.size(); ++i) EXPECT_EQ(points[i][0], fewer[i][0]);
}

TEST(SweepPoints, RandomPointsFillTheirRangeEvenly) {
  const auto points = random_points({key_of("optim.lr=1e-4..1e-2:log"), key_of("run.seed=1..4:lin"),
                                     key_of("optim.beta2=0.9..0.99:lin")},
                                    1000, 3)
                          .value();
  int low = 0, linear_low = 0;
  std::map<std::string, int> seeds;
  for (const SweepPoint& point : points) {
    const double lr = number(point[0]), beta2 = number(point[2]);
    EXPECT_TRUE(lr >= 1e-4 && lr <= 1e-2) << point[0];
    EXPECT_TRUE(beta2 >= 0.9 && beta2 <= 0.99) << point[2];
    low += lr < 1e-3 ? 1 : 0;
    linear_low += beta2 < 0.945 ? 1 : 0;
    ++seeds[point[1]];
  }
  // Five standard deviations of 1,000 draws.
  EXPECT_NEAR(low, 500, 80);
  EXPECT_NEAR(linear_low, 500, 80);
  ASSERT_EQ(seeds.size(), 4u);
  for (const auto& [seed, count] : seeds) EXPECT_NEAR(count, 250, 70) << seed;
}

}  // namespace
}  // namespace trireme
