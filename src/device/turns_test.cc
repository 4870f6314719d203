#include "device/turns.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

namespace trireme {
namespace {

// Every piece writes its letter before each of its passes, and once more at its end.
std::string order_of(Turns& turns, int passes_a, int passes_b) {
  std::string order;
  const auto piece = [&](char letter, int passes) {
    for (int i = 0; i < passes; ++i) {
      order += letter;
      turns.pass();
    }
    order += letter;
  };
  turns.run([&] { piece('a', passes_a); }, [&] { piece('b', passes_b); });
  return order;
}

TEST(Turns, AlternateUntilOnePieceEnds) {
  Turns turns;
  for (int a = 0; a < 6; ++a) {
    for (int b = 0; b < 6; ++b) {
      std::string expected;
      for (int left_a = a + 1, left_b = b + 1; left_a > 0 || left_b > 0;) {
        // A piece keeps the turn if the other one has ended.
        if (left_a > 0) expected += 'a', --left_a;
        if (left_b > 0) expected += 'b', --left_b;
      }
      EXPECT_EQ(order_of(turns, a, b), expected) << a << ' ' << b;
    }
  }
}

TEST(Turns, PassOutsideARunDoesNothing) {
  Turns turns;
  turns.pass();
  EXPECT_FALSE(turns.are_taken());
  EXPECT_EQ(order_of(turns, 1, 1), "abab");
  turns.pass();
}

TEST(Turns, AnErrorOfOnePieceEndsTheOtherAndIsThrown) {
  Turns turns;
  for (const bool is_first : {true, false}) {
    for (int passes = 0; passes < 3; ++passes) {
      int others = 0;
      const auto fails = [&] {
        for (int i = 0; i < passes; ++i) turns.pass();
        throw std::runtime_error("broken");
      };
      const auto goes_on = [&] {
        for (; others < 100; ++others) turns.pass();
      };
      const auto run = [&] {
        if (is_first) return turns.run(fails, goes_on);
        turns.run(goes_on, fails);
      };
      EXPECT_THROW(run(), std::runtime_error);
      EXPECT_LE(others, passes);
    }
  }
  EXPECT_EQ(order_of(turns, 2, 2), "ababab");
}

TEST(Turns, TimeAwayIsThatOfTheOtherPiece) {
  Turns turns;
  int64_t away_a = 0, away_b = 0;
  const auto busy = [](int64_t ns) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  turns.run(
      [&] {
        turns.pass();
        away_a = turns.away_ns();
      },
      [&] {
        busy(20'000'000);
        away_b = turns.away_ns();
      });
  EXPECT_GE(away_a, 20'000'000);
  EXPECT_EQ(away_b, 0);
}

// By a clock that stands still while a rank waits, a piece is away as long as the other one works.
TEST(Turns, TimeAwayIsMeasuredByTheClockOfTheCaller) {
  int64_t now_ns = 0, away_a = 0, away_b = 0;
  Turns turns([&] { return now_ns; });
  turns.run(
      [&] {
        now_ns += 3;
        turns.pass();
        away_a = turns.away_ns();
        now_ns += 5;
      },
      [&] {
        now_ns += 7;
        turns.pass();
        away_b = turns.away_ns();
      });
  EXPECT_EQ(away_a, 7);
  EXPECT_EQ(away_b, 5);
}

}  // namespace
}  // namespace trireme
