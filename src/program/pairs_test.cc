#include "program/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "program/make_schedule.h"

namespace trireme {
namespace {

Program without_marks(Program program) {
  for (Action& action : program) action.beside = Beside::None;
  return program;
}

std::vector<Program> dual_programs() {
  std::vector<Program> programs;
  for (const char* kind : {"dualpipe", "dualpipev"}) {
    const Schedule schedule = make_schedule(kind, {4, 12, 2}).value();
    programs.insert(programs.end(), schedule.programs.begin(), schedule.programs.end());
  }
  return programs;
}

TEST(Pairs, BesideAndApartAreTheSameActions) {
  for (const Program& program : dual_programs()) {
    Program beside = unpair(program, Pairs::Beside);
    EXPECT_EQ(without_marks(beside), unpair(program, Pairs::Apart));
    const auto num_pairs = std::count_if(program.begin(), program.end(), [](const Action& action) {
      return action.kind == ActionKind::FB;
    });
    EXPECT_EQ(std::count_if(beside.begin(), beside.end(),
                            [](const Action& action) { return action.beside == Beside::Next; }),
              num_pairs);
    EXPECT_EQ(has_pairs(beside), num_pairs > 0);
    EXPECT_TRUE(check_pairs(beside, 0).empty());
    const Program whole = beside;
    part_broken_pairs(beside);
    EXPECT_EQ(beside, whole);
  }
}

// After any insertion, removal or exchange of actions, a half without the other is refused, and its
// mark is removed.
TEST(Pairs, AHalfAloneIsRefusedAndParted) {
  int num_refused = 0;
  for (const Program& program : dual_programs()) {
    const Program beside = unpair(program, Pairs::Beside);
    for (size_t i = 0; i < beside.size(); ++i) {
      Program without = beside, with = beside, same_chunk = beside;
      without.erase(without.begin() + int64_t(i));
      with.insert(with.begin() + int64_t(i), {.kind = ActionKind::SumGrad});
      same_chunk[i].chunk = int16_t(1 - same_chunk[i].chunk);
      const bool is_half = beside[i].beside != Beside::None;
      EXPECT_EQ(check_pairs(without, 0).empty(), !is_half);
      EXPECT_EQ(check_pairs(with, 0).empty(), beside[i].beside != Beside::Previous);
      EXPECT_EQ(check_pairs(same_chunk, 0).empty(), !is_half);
      for (Program* damaged : {&without, &with, &same_chunk}) {
        num_refused += check_pairs(*damaged, 0).empty() ? 0 : 1;
        part_broken_pairs(*damaged);
        EXPECT_TRUE(check_pairs(*damaged, 0).empty());
      }
    }
  }
  EXPECT_GT(num_refused, 0);
}

}  // namespace
}  // namespace trireme
