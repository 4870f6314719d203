#include "program/make_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "program/check.h"
#include "program/send_recv.h"

namespace trireme {
namespace {

void expect_valid(const std::string& kind, const ScheduleShape& shape) {
  const Result<Schedule> schedule = make_schedule(kind, shape);
  ASSERT_TRUE(schedule.ok()) << schedule.error().message;
  std::vector<Problem> problems = check(*schedule);
  ASSERT_TRUE(problems.empty()) << kind << " p " << shape.num_ranks << " m "
                                << shape.num_microbatches << "\n"
                                << explain(*schedule, problems[0]);
  // The order must be valid for any times; these differ by kind of action.
  const Schedule sent = add_send_recv(*schedule, {1, 1.5, 0.7, shape.num_microbatches % 3 * 0.4});
  problems = check(sent);
  ASSERT_TRUE(problems.empty()) << kind << " with transfers, p " << shape.num_ranks << " m "
                                << shape.num_microbatches << "\n"
                                << explain(sent, problems[0]);
}

TEST(MakeSchedule, EveryKindIsValidAtEveryShapeThatItTakes) {
  for (int p = 1; p <= 9; ++p) {
    for (int m = 1; m <= 20; ++m) {
      for (const std::string& kind : schedule_kinds()) {
        if (traits_of(kind).chunks == ChunkRule::Any) {
          for (int v = 1; v <= 3 && m % p == 0; ++v) expect_valid(kind, {p, m, v});
        } else if (make_schedule(kind, {p, m}).ok()) {
          expect_valid(kind, {p, m});
        }
      }
    }
  }
}

TEST(MakeSchedule, TakesExactlyTheShapesOfTheRules) {
  for (int p = 1; p <= 9; ++p) {
    for (int m = 1; m <= 20; ++m) {
      const auto takes = [&](const std::string& kind) { return make_schedule(kind, {p, m}).ok(); };
      for (const std::string kind : {"naive", "gpipe", "1f1b", "zb_h1", "zb_h2", "zb_v"}) {
        EXPECT_TRUE(takes(kind)) << kind << " p " << p << " m " << m;
      }
      EXPECT_EQ(takes("interleaved"), m % p == 0);
      EXPECT_EQ(takes("dualpipe"), p % 2 == 0 && m % 2 == 0 && m >= 2 * p);
      EXPECT_EQ(takes("dualpipev"), m >= 2 * p);
    }
  }
}

// The largest number k so that every chunk holds k micro-batches at some time.
int most_held_by_all(const Program& program, int num_chunks) {
  std::vector<int> held(size_t(num_chunks), 0);
  int most = 0;
  for (const Action& action : program) {
    if (action.kind == ActionKind::F || action.kind == ActionKind::FB) ++held[action.chunk];
    most = std::max(most, *std::min_element(held.begin(), held.end()));
    if (action.kind == ActionKind::W || action.kind == ActionKind::BW) --held[action.chunk];
    if (action.kind == ActionKind::FB) --held[action.chunk_b];
  }
  return most;
}

// The largest number of forward passes whose activations are held at some time.
int most_held(const Program& program) {
  int held = 0, most = 0;
  for (const Action& action : program) {
    if (action.kind == ActionKind::F || action.kind == ActionKind::FB)
      most = std::max(most, ++held);
    if (action.kind == ActionKind::W || action.kind == ActionKind::BW) --held;
    if (action.kind == ActionKind::FB) --held;
  }
  return most;
}

void expect_traits(const Schedule& schedule, const ScheduleShape& shape) {
  const ScheduleTraits& traits = traits_of(schedule.kind);
  EXPECT_EQ(schedule.placement, traits.placement);
  std::vector<int> holders(size_t(num_stages(schedule)), 0);
  bool has_backward_apart = false;
  bool has_two_in_flight = false;
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    const Program& program = schedule.programs[size_t(rank)];
    for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
      ++holders[size_t(stage_of(schedule, rank, chunk))];
    }
    for (size_t i = 0; i < program.size(); ++i) {
      has_backward_apart |= program[i].kind == ActionKind::B;
      has_two_in_flight |=
          i > 0 && program[i].kind == ActionKind::F && program[i - 1].kind == ActionKind::F;
    }
    EXPECT_GE(most_held_by_all(program, schedule.num_chunks),
              least_live(schedule.kind, shape, rank));
    const ScheduleShape with_chunks{shape.num_ranks, shape.num_microbatches, schedule.num_chunks};
    const int least = least_held(schedule.kind, with_chunks, rank);
    EXPECT_GE(most_held(program), least);
    if (schedule.kind == "interleaved") {
      EXPECT_EQ(most_held(program), least);
    }
  }
  for (const int ranks : holders) EXPECT_EQ(ranks, traits.param_copies());
  EXPECT_EQ(!has_backward_apart, traits.merges_backward);
  if (shape.num_ranks > 1 && shape.num_microbatches > 1) {
    EXPECT_EQ(!has_two_in_flight, traits.is_serial);
  }
}

TEST(MakeSchedule, EverySchedulesPlacementCopiesAndBackwardAreThoseOfItsTraits) {
  for (int p = 1; p <= 9; ++p) {
    for (int m = 1; m <= 20; ++m) {
      for (const std::string& kind : schedule_kinds()) {
        const bool takes_any = traits_of(kind).chunks == ChunkRule::Any;
        for (int v = takes_any ? 1 : 0; v <= (takes_any ? 3 : 0); ++v) {
          SCOPED_TRACE(kind + " p " + std::to_string(p) + " m " + std::to_string(m));
          const Result<Schedule> schedule = make_schedule(kind, {p, m, v});
          if (schedule.ok()) expect_traits(*schedule, {p, m, v});
        }
      }
    }
  }
}

void expect_refused(const std::string& kind, const ScheduleShape& shape, ErrorKind error,
                    const std::vector<std::string>& words) {
  const Result<Schedule> schedule = make_schedule(kind, shape);
  ASSERT_FALSE(schedule.ok()) << kind;
  EXPECT_EQ(schedule.error().kind, error) << schedule.error().message;
  for (const std::string& word : words) {
    EXPECT_NE(schedule.error().message.find(word), std::string::npos)
        << "'" << word << "' is not in: " << schedule.error().message;
  }
}

TEST(MakeSchedule, RefusesWithTheRuleTheNumbersAndTheNearestChoices) {
  expect_refused("1f1B", {4, 8}, ErrorKind::Usage, {"'1f1B'", "did you mean '1f1b'"});
  expect_refused("zbh1", {4, 8}, ErrorKind::Usage, {"did you mean 'zb_h1'"});
  expect_refused("interleaved", {4, 10, 2}, ErrorKind::Infeasible, {"10", "4", "8 or 12"});
  expect_refused("interleaved", {4, 3, 2}, ErrorKind::Infeasible, {"try 4 micro"});
  expect_refused("dualpipe", {3, 8}, ErrorKind::Infeasible, {"even", "3", "2 or 4", "dualpipev"});
  expect_refused("dualpipe", {4, 6}, ErrorKind::Infeasible, {"at least twice", "6", "try 8"});
  expect_refused("dualpipe", {2, 7}, ErrorKind::Infeasible, {"even", "7", "6 or 8"});
  expect_refused("dualpipev", {4, 7}, ErrorKind::Infeasible, {"7", "8", "3 stages"});
  expect_refused("1f1b", {4, 8, 2}, ErrorKind::Usage, {"1 chunk", "chunks = 2", "interleaved"});
  expect_refused("zb_v", {4, 8, 1}, ErrorKind::Usage, {"2 chunks", "chunks = 1"});
  expect_refused("1f1b", {0, 8}, ErrorKind::Usage, {"stages = 0"});
  expect_refused("1f1b", {4, -1}, ErrorKind::Usage, {"microbatches = -1"});
  expect_refused("1f1b", {30000, 100000}, ErrorKind::Usage, {"actions"});
}

std::string text(const std::string& kind, const ScheduleShape& shape, int rank) {
  const Schedule schedule = make_schedule(kind, shape).value();
  return to_string(schedule.programs[rank], schedule.num_chunks);
}

// One order of each family, written down by hand from its definition.
TEST(MakeSchedule, OrdersReadAsPublished) {
  EXPECT_EQ(text("naive", {2, 2}, 0), "F0 BW0 F1 BW1");
  EXPECT_EQ(text("gpipe", {2, 3}, 1), "F0 F1 F2 BW0 BW1 BW2");
  EXPECT_EQ(text("1f1b", {3, 4}, 0), "F0 F1 F2 BW0 F3 BW1 BW2 BW3");
  EXPECT_EQ(text("1f1b", {3, 4}, 2), "F0 BW0 F1 BW1 F2 BW2 F3 BW3");
  EXPECT_EQ(text("interleaved", {2, 2, 2}, 0), "F0.0 F1.0 F0.1 F1.1 BW0.1 BW1.1 BW0.0 BW1.0");
  EXPECT_EQ(text("interleaved", {2, 2, 2}, 1), "F0.0 F1.0 F0.1 BW0.1 F1.1 BW1.1 BW0.0 BW1.0");
  EXPECT_EQ(text("zb_h1", {3, 4}, 1), "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
  EXPECT_EQ(text("zb_h2", {2, 3}, 0), "F0 F1 F2 B0 W0 B1 W1 B2 W2");
  EXPECT_EQ(text("zb_h2", {2, 3}, 1), "F0 B0 F1 B1 F2 B2 W0 W1 W2");
  EXPECT_EQ(text("zb_v", {1, 1}, 0), "F0.0 F0.1 B0.1 W0.1 B0.0 W0.0");
  EXPECT_EQ(text("dualpipev", {1, 2}, 0), "F0.0 F0.1 F1.0 BW0.1 F1.1&BW0.0 BW1.1 B1.0 W1.0");
  EXPECT_EQ(text("dualpipe", {2, 4}, 0), "F0.0 F2.1 F1.0 BW2.1 F3.1&BW0.0 BW3.1 B1.0 W1.0");
}

TEST(SendRecv, KeepsTheOrderOfEverythingElse) {
  for (const std::string& kind : schedule_kinds()) {
    const Schedule schedule = make_schedule(kind, {4, 8}).value();
    const Schedule sent = add_send_recv(schedule);
    for (int rank = 0; rank < 4; ++rank) {
      Program computing;
      for (const Action& action : sent.programs[rank]) {
        if (action.peer < 0) computing.push_back(action);
      }
      EXPECT_EQ(computing, schedule.programs[rank]) << kind;
    }
  }
}

TEST(SendRecv, ReadsAsText) {
  const Schedule sent = add_send_recv(make_schedule("1f1b", {2, 2}).value());
  EXPECT_EQ(to_string(sent.programs[0], 1), "F0 SF0>1 F1 SF1>1 RB0<1 BW0 RB1<1 BW1");
  EXPECT_EQ(to_string(sent.programs[1], 1), "RF0<0 RF1<0 F0 BW0 SB0>0 F1 BW1 SB1>0");
}

}  // namespace
}  // namespace trireme
