#include "program/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <tuple>

#include "program/accumulate.h"
#include "program/make_schedule.h"
#include "program/send_recv.h"
#include "program/stage_graph.h"

namespace trireme {
namespace {

struct Case {
  std::string kind;
  ScheduleShape shape;
};

// Every kind of schedule at shapes small enough to damage each action.
std::vector<Case> small_cases() {
  std::vector<Case> cases;
  for (const std::string kind : {"naive", "gpipe", "1f1b", "zb_h1", "zb_h2", "zb_v"}) {
    for (const auto& [p, m] : {std::pair{1, 1}, {2, 3}, {3, 2}, {4, 7}}) {
      cases.push_back({kind, {p, m}});
    }
  }
  cases.push_back({"interleaved", {2, 4, 3}});
  cases.push_back({"interleaved", {3, 6, 2}});
  cases.push_back({"dualpipe", {2, 8}});
  cases.push_back({"dualpipe", {4, 8}});
  cases.push_back({"dualpipev", {2, 5}});
  cases.push_back({"dualpipev", {3, 8}});
  return cases;
}

Schedule make(const Case& c) { return make_schedule(c.kind, c.shape).value(); }

Schedule accumulated(Schedule schedule) {
  for (Program& program : schedule.programs) {
    program = accumulate(program, schedule.num_chunks, AccumulateMode::Layout,
                         MicrobatchMap::contiguous(schedule.num_microbatches))
                  .program;
    append_step(program);
  }
  return schedule;
}

// An oracle that shares no code with the checker: it runs the heads of the lists until nothing
// moves.
bool completes(const Schedule& schedule) {
  using Key = std::tuple<char, int, int>;  // action, stage, micro-batch
  std::set<Key> done;
  std::vector<size_t> at(schedule.programs.size(), 0);
  const int last = num_stages(schedule) - 1;
  const auto has = [&](char what, int stage, int k) { return done.contains({what, stage, k}); };
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < schedule.num_ranks; ++rank) {
      if (at[rank] == schedule.programs[rank].size()) continue;
      const Action& a = schedule.programs[rank][at[rank]];
      const bool pair = a.kind == ActionKind::FB;
      const int s = stage_of(schedule, rank, a.chunk);
      const int sb = pair ? stage_of(schedule, rank, a.chunk_b) : s;
      const int kb = pair ? a.microbatch_b : a.microbatch;
      const bool f = pair || a.kind == ActionKind::F;
      const bool b = pair || a.kind == ActionKind::B || a.kind == ActionKind::BW;
      if (f && s > 0 && !has('F', s - 1, a.microbatch)) continue;
      if (b && !has('F', sb, kb)) continue;
      if (b && sb < last && !has('B', sb + 1, kb)) continue;
      if (a.kind == ActionKind::W && !has('B', s, a.microbatch)) continue;
      if (f) done.insert({'F', s, a.microbatch});
      if (b) done.insert({'B', sb, kb});
      ++at[rank];
      moved = true;
    }
  }
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    if (at[rank] != schedule.programs[rank].size()) return false;
  }
  return true;
}

// Calls damage(schedule, rank, position) for every action. Every damaged schedule must be refused,
// with a problem that can be drawn.
void expect_caught(
    const Schedule& good, std::string_view what,
    const std::function<bool(Schedule& schedule, int rank, size_t position)>& damage) {
  ASSERT_TRUE(check(good).empty()) << explain(good, check(good)[0]);
  for (int rank = 0; rank < good.num_ranks; ++rank) {
    for (size_t position = 0; position < good.programs[rank].size(); ++position) {
      Schedule bad = good;
      if (!damage(bad, rank, position)) continue;
      const std::vector<Problem> problems = check(bad);
      ASSERT_FALSE(problems.empty())
          << good.kind << " p " << good.num_ranks << " m " << good.num_microbatches << ": " << what
          << " at rank " << rank << " position " << position << " ("
          << to_string(good.programs[rank][position], good.num_chunks) << ") was not noticed";
      const std::string picture = explain(bad, problems[0]);
      ASSERT_NE(picture.find(problems[0].message), std::string::npos);
      if (problems[0].position >= 0) {
        ASSERT_NE(picture.find('['), std::string::npos) << picture;
      }
    }
  }
}

bool drop(Schedule& schedule, int rank, size_t position) {
  Program& program = schedule.programs[rank];
  if (program[position].kind == ActionKind::Step) return false;
  program.erase(program.begin() + static_cast<long>(position));
  return true;
}

bool duplicate(Schedule& schedule, int rank, size_t position) {
  Program& program = schedule.programs[rank];
  if (program[position].kind == ActionKind::Step) return false;
  program.insert(program.begin() + static_cast<long>(position), Action(program[position]));
  return true;
}

bool change_microbatch(Schedule& schedule, int rank, size_t position) {
  Action& action = schedule.programs[rank][position];
  if (action.kind == ActionKind::SumGrad || action.kind == ActionKind::Step) return false;
  ++action.microbatch;
  return true;
}

bool change_chunk(Schedule& schedule, int rank, size_t position) {
  Action& action = schedule.programs[rank][position];
  if (action.kind == ActionKind::Step) return false;
  action.chunk = static_cast<int16_t>((action.chunk + 1) % (schedule.num_chunks + 1));
  return true;
}

bool move_to_another_rank(Schedule& schedule, int rank, size_t position) {
  if (schedule.num_ranks == 1 || !computes(schedule.programs[rank][position].kind)) return false;
  Program& to = schedule.programs[(rank + 1) % schedule.num_ranks];
  to.push_back(schedule.programs[rank][position]);
  return drop(schedule, rank, position);
}

bool change_kind(Schedule& schedule, int rank, size_t position) {
  Action& action = schedule.programs[rank][position];
  switch (action.kind) {
    case ActionKind::F:
      action.kind = ActionKind::BW;
      break;
    case ActionKind::B:
      action.kind = ActionKind::BW;
      break;
    case ActionKind::W:
      action.kind = ActionKind::B;
      break;
    case ActionKind::BW:
      action.kind = ActionKind::B;
      break;
    case ActionKind::FB:
      action.kind = ActionKind::F;
      break;
    case ActionKind::SendActivation:
      action.kind = ActionKind::SendGrad;
      break;
    case ActionKind::RecvActivation:
      action.kind = ActionKind::SendActivation;
      break;
    case ActionKind::SendGrad:
      action.kind = ActionKind::RecvGrad;
      break;
    case ActionKind::RecvGrad:
      action.kind = ActionKind::RecvActivation;
      break;
    default:
      return false;
  }
  return true;
}

TEST(Check, FindsEveryDamageToABareSchedule) {
  for (const Case& c : small_cases()) {
    const Schedule good = make(c);
    expect_caught(good, "drop", drop);
    expect_caught(good, "duplicate", duplicate);
    expect_caught(good, "change of micro-batch", change_microbatch);
    expect_caught(good, "change of chunk", change_chunk);
    expect_caught(good, "change of kind", change_kind);
    expect_caught(good, "move to another rank", move_to_another_rank);
  }
}

TEST(Check, FindsEveryDamageToTransfers) {
  for (const Case& c : small_cases()) {
    const Schedule good = add_send_recv(make(c));
    if (c.shape.num_ranks == 1) continue;
    expect_caught(good, "drop", drop);
    expect_caught(good, "duplicate", duplicate);
    expect_caught(good, "change of micro-batch", change_microbatch);
    expect_caught(good, "change of chunk", change_chunk);
    expect_caught(good, "change of kind", change_kind);
    expect_caught(good, "wrong peer", [](Schedule& schedule, int rank, size_t position) {
      Action& action = schedule.programs[rank][position];
      if (action.peer < 0) return false;
      action.peer = static_cast<int16_t>((action.peer + 1) % schedule.num_ranks);
      return schedule.num_ranks > 1;
    });
  }
}

TEST(Check, FindsEveryDamageToTheSumOverMicrobatches) {
  for (const Case& c : small_cases()) {
    if (c.shape.num_microbatches == 1) continue;
    const Schedule good = accumulated(make(c));
    expect_caught(good, "drop", drop);
    expect_caught(good, "duplicate", duplicate);
    const auto only_gradients = [](const Action& action) {
      return action.kind == ActionKind::SumGrad || action.kind == ActionKind::W ||
             action.kind == ActionKind::BW || action.kind == ActionKind::FB;
    };
    expect_caught(good, "wrong slot", [&](Schedule& schedule, int rank, size_t position) {
      Action& action = schedule.programs[rank][position];
      action.grad_slot = static_cast<int16_t>(action.grad_slot + 1);
      return only_gradients(action);
    });
    expect_caught(good, "swapped operands", [](Schedule& schedule, int rank, size_t position) {
      Action& action = schedule.programs[rank][position];
      std::swap(action.grad_slot, action.grad_slot_b);
      return action.kind == ActionKind::SumGrad;
    });
    expect_caught(good, "sum too early", [](Schedule& schedule, int rank, size_t position) {
      Program& program = schedule.programs[rank];
      if (program[position].kind != ActionKind::SumGrad) return false;
      std::swap(program[position], program[position - 1]);
      return true;
    });
    expect_caught(good, "early step", [](Schedule& schedule, int rank, size_t position) {
      Program& program = schedule.programs[rank];
      if (program[position].kind != ActionKind::Step) return false;
      // The position after the last W; only sums may follow.
      const auto last_w = std::find_if(program.rbegin(), program.rend(),
                                       [](const Action& action) { return computes(action.kind); });
      std::rotate(last_w, program.rbegin(), program.rbegin() + 1);
      std::rotate(program.rbegin(), program.rbegin() + 1, last_w + 1);
      std::rotate(program.begin(), program.end() - 1, program.end());
      const auto step = std::find_if(program.begin(), program.end(), [](const Action& action) {
        return action.kind == ActionKind::Step;
      });
      std::rotate(program.begin(), step, step + 1);
      return true;
    });
  }
}

// A swap may give another valid order, so the checker must agree with the oracle on every one.
TEST(Check, AgreesWithTheOracleOnRandomOrders) {
  std::mt19937 random(7);
  int valid = 0;
  int invalid = 0;
  for (const Case& c : small_cases()) {
    const Schedule good = make(c);
    for (int trial = 0; trial < 150; ++trial) {
      Schedule other = good;
      const int swaps = 1 + trial % 4;
      for (int i = 0; i < swaps; ++i) {
        Program& program = other.programs[random() % other.programs.size()];
        if (program.size() < 2) continue;
        const size_t a = random() % (program.size() - 1);
        const size_t b = trial % 2 == 0 ? a + 1 : random() % program.size();
        std::swap(program[a], program[b]);
      }
      const std::vector<Problem> problems = check(other);
      ASSERT_EQ(problems.empty(), completes(other)) << c.kind << " trial " << trial;
      ++(problems.empty() ? valid : invalid);
    }
  }
  EXPECT_GT(valid, 100);
  EXPECT_GT(invalid, 100);
}

TEST(Check, SpellsOutACycle) {
  Schedule schedule = make_schedule("1f1b", {2, 2}).value();
  schedule.programs[1] = {
      {ActionKind::F, 0, 1}, {ActionKind::BW, 0, 1}, {ActionKind::F, 0, 0}, {ActionKind::BW, 0, 0}};
  schedule.programs[0] = {
      {ActionKind::F, 0, 0}, {ActionKind::BW, 0, 0}, {ActionKind::F, 0, 1}, {ActionKind::BW, 0, 1}};
  const std::vector<Problem> problems = check(schedule);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].rule, "R5");
  EXPECT_NE(
      problems[0].message.find("rank 0 at position 1 (BW0) waits for B0 of stage 1 on rank 1"),
      std::string::npos)
      << problems[0].message;
  EXPECT_NE(problems[0].message.find("rank 1 at position 0 (F1) waits for F1 of stage 0 on rank 0"),
            std::string::npos)
      << problems[0].message;
}

TEST(Check, RefusesAnOverlappedPairOfOneMicrobatchAndReductionsTooEarly) {
  Schedule schedule = make_schedule("1f1b", {1, 2}).value();
  schedule.programs[0] = {
      {.kind = ActionKind::FB, .microbatch = 0, .chunk_b = 0, .microbatch_b = 0},
      {.kind = ActionKind::F, .microbatch = 1},
      {.kind = ActionKind::BW, .microbatch = 1}};
  std::vector<Problem> problems = check(schedule);
  ASSERT_FALSE(problems.empty());
  EXPECT_EQ(problems[0].rule, "R6");

  const Action reduce{.kind = ActionKind::ReduceGrad, .microbatch = -1};
  schedule = make_schedule("1f1b", {1, 2}).value();
  schedule.programs[0].push_back(reduce);
  EXPECT_TRUE(check(schedule).empty());
  std::swap(schedule.programs[0][3], schedule.programs[0][4]);
  ASSERT_EQ(check(schedule).size(), 1u);
  EXPECT_EQ(check(schedule)[0].rule, "R7");
  schedule.programs[0][3].kind = ActionKind::JoinTiedTable;
  schedule.programs[0][3].peer = 0;
  ASSERT_EQ(check(schedule).size(), 1u);
  EXPECT_EQ(check(schedule)[0].rule, "R8");
}

}  // namespace
}  // namespace trireme
