#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "compile/compile_rank.h"
#include "layout_case.h"
#include "program/check_ranks.h"

namespace trireme {
namespace {

// Changes the program of `rank` at `position`. Returns false if this action cannot be damaged in
// this way.
using Damage = std::function<bool(Program& program, size_t position)>;

bool is_collective(const Action& action) {
  return action.kind == ActionKind::ReduceGrad || action.kind == ActionKind::JoinTiedTable ||
         action.kind == ActionKind::Unshard;
}
bool is_transfer(const Action& action) {
  return action.kind == ActionKind::SendActivation || action.kind == ActionKind::RecvActivation ||
         action.kind == ActionKind::SendGrad || action.kind == ActionKind::RecvGrad;
}
bool has_microbatch(const Action& action) {
  return action.kind != ActionKind::StepPiece && action.microbatch >= 0;
}

bool drop(Program& program, size_t position) {
  program.erase(program.begin() + int64_t(position));
  return true;
}

bool repeat(Program& program, size_t position) {
  program.insert(program.begin() + int64_t(position), Action(program[position]));
  return true;
}

bool swap_with_next(Program& program, size_t position) {
  if (position + 1 >= program.size() || program[position] == program[position + 1]) return false;
  std::swap(program[position], program[position + 1]);
  return true;
}

// Swaps the action with the next one of the same kind and another micro-batch.
bool swap_microbatches(Program& program, size_t position) {
  Action& action = program[position];
  if (!has_microbatch(action)) return false;
  for (size_t i = position + 1; i < program.size(); ++i) {
    Action& other = program[i];
    if (other.kind != action.kind || other.chunk != action.chunk ||
        other.first_unit != action.first_unit || other.microbatch == action.microbatch) {
      continue;
    }
    std::swap(action.microbatch, other.microbatch);
    return true;
  }
  return false;
}

bool change_chunk(Program& program, size_t position) {
  Action& action = program[position];
  if (action.chunk < 0) return false;
  action.chunk = int16_t(action.chunk + 1);
  return true;
}

bool change_unit(Program& program, size_t position) {
  Action& action = program[position];
  if (action.num_units == 0) return false;
  action.first_unit = int16_t(action.first_unit > 0 ? action.first_unit - 1 : 1);
  return true;
}

bool change_peer(Program& program, size_t position) {
  Action& action = program[position];
  if (!is_transfer(action)) return false;
  action.peer = int16_t(action.peer == 0 ? 1 : action.peer - 1);
  return true;
}

bool change_slot(Program& program, size_t position) {
  Action& action = program[position];
  const bool is_leaf = action.kind == ActionKind::W || action.kind == ActionKind::BW ||
                       (action.kind == ActionKind::ReduceGrad && action.microbatch >= 0);
  ++action.grad_slot;
  return is_leaf || action.kind == ActionKind::SumGrad;
}

bool change_accumulate(Program& program, size_t position) {
  Action& action = program[position];
  const bool sums = action.kind == ActionKind::W || action.kind == ActionKind::BW ||
                    (action.kind == ActionKind::ReduceGrad && action.microbatch >= 0);
  action.accumulate = !action.accumulate;
  return sums;
}

bool swap_collectives(Program& program, size_t position) {
  if (!is_collective(program[position])) return false;
  const auto next = std::find_if(program.begin() + int64_t(position) + 1, program.end(),
                                 [](const Action& action) { return is_collective(action); });
  if (next == program.end() || *next == program[position]) return false;
  std::swap(program[position], *next);
  return true;
}

// Moves an action that releases memory before one that still uses it.
bool move_up(Program& program, size_t position) {
  const ActionKind kind = program[position].kind;
  const bool gives_up =
      kind == ActionKind::Reshard || kind == ActionKind::Step || kind == ActionKind::StepPiece;
  if (position == 0 || !gives_up) return false;
  std::swap(program[position], program[position - 1]);
  return true;
}

struct NamedDamage {
  const char* name;
  Damage apply;
};

const std::vector<NamedDamage>& damages() {
  static const std::vector<NamedDamage> all = {
      {"drop", drop},
      {"repeat", repeat},
      {"swap with the next", swap_with_next},
      {"swap two micro-batches", swap_microbatches},
      {"other chunk", change_chunk},
      {"other unit", change_unit},
      {"other peer", change_peer},
      {"other gradient slot", change_slot},
      {"add instead of write", change_accumulate},
      {"swap two collectives", swap_collectives},
      {"too early", move_up},
  };
  return all;
}

// How often a kind of damage was refused, by rule, and how often it left a valid program.
struct DamageTally {
  std::map<std::string, int> refused;
  int valid = 0;
  int run = 0;
};

bool runs_with_equal_bits(RunPlan plan, std::vector<RankPlan> ranks, const LayoutRun& whole,
                          std::string& why) {
  // No rank waits without reason, but other tests may use the cores.
  plan.config.run.comm_timeout_s = 60.0;
  try {
    for (RankPlan& rank : ranks) plan_rank_memory(rank, plan);
    const LayoutRun run = run_layout(plan, {.end = 2, .ranks = &ranks});
    why = difference(run, whole) + run.differences;
  } catch (const std::exception& error) {
    why = error.what();
  }
  return why.empty();
}

class DamageRun {
 public:
  explicit DamageRun(const Case& c)
      : case_(c),
        plan_(plan_of(c)),
        intact_(rank_plans(plan_)),
        whole_(run_layout(plan_, {.end = 2})) {}

  // Damages each `stride`-th action of every stage, on a single rank and on all ranks of the stage.
  // The kinds of damage begin at different actions in turn.
  void run(size_t stride) {
    for (size_t kind = 0; kind < damages().size(); ++kind) {
      const NamedDamage& damage = damages()[kind];
      for (int stage = 0; stage < plan_.mesh.pp; ++stage) {
        const int first = position_of(plan_.mesh, {.pp = stage});
        for (size_t i = kind % stride; i < intact_[size_t(first)].program.size(); i += stride) {
          for (const bool everywhere : {false, true}) {
            if (everywhere || plan_.mesh.size() > plan_.mesh.pp)
              apply(damage, first, i, everywhere);
          }
        }
      }
    }
  }

  std::map<std::string, DamageTally>& tallies() { return tallies_; }

 private:
  void apply(const NamedDamage& damage, int first, size_t position, bool everywhere) {
    std::vector<RankPlan> ranks = intact_;
    const Action action = ranks[size_t(first)].program[position];
    bool is_damaged = false;
    for (RankPlan& rank : ranks) {
      const bool is_meant =
          everywhere ? rank.coords.pp == ranks[size_t(first)].coords.pp : rank.position == first;
      if (is_meant) is_damaged = damage.apply(rank.program, position);
      if (is_meant && !is_damaged) return;
    }
    const std::vector<Problem> problems =
        check_ranks(plan_.schedule, plan_.mesh, ranks, plan_.mode);
    DamageTally& tally = tallies_[damage.name];
    if (!problems.empty()) {
      ++tally.refused[problems.front().rule];
      EXPECT_NE(explain(plan_.schedule, ranks, problems.front()), "");
      return;
    }
    ++tally.valid;
    if (tally.valid > kRunAll && tally.valid % kRunEvery != 0) return;
    ++tally.run;
    std::string why;
    EXPECT_TRUE(runs_with_equal_bits(plan_, ranks, whole_, why))
        << case_.name() << ": " << damage.name << " at " << position << " ("
        << to_string(action, plan_.schedule.num_chunks)
        << (everywhere ? ") everywhere" : ") on rank ") << first << " was not noticed: " << why;
  }

  static constexpr int kRunAll = 4;
  static constexpr int kRunEvery = 9;
  Case case_;
  RunPlan plan_;
  std::vector<RankPlan> intact_;
  LayoutRun whole_;  // by the intact programs
  std::map<std::string, DamageTally> tallies_;
};

// The checker refuses a damaged program, or the program is another valid one. Then it gives the
// same bits and needs exactly its planned memory.
void expect_refused_or_without_effect(size_t stride) {
  const Case layouts[] = {
      {.dp = 2},
      {.dp = 2, .zero = 1},
      {.dp = 2, .pp = 2, .zero = 2},
      {.dp = 2,
       .pp = 2,
       .schedule = ScheduleKind::Interleaved,
       .zero = 3,
       .recompute = Recompute::Full},
      {.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbV, .zero = 3, .family = "llama"},
      {.pp = 4, .schedule = ScheduleKind::ZbH1},
      {.dp = 2, .pp = 2, .schedule = ScheduleKind::Dualpipe, .zero = 1},
      {.dp = 3,
       .pp = 2,
       .schedule = ScheduleKind::Dualpipe,
       .zero = 1,
       .layers = 2,
       .sequences = 12},
      {.dp = 2, .zero = 1, .offload = OffloadChoice::Optimizer},
      {.dp = 2, .zero = 1, .offload = OffloadChoice::All},
      {.dp = 2, .pp = 2, .zero = 3, .offload = OffloadChoice::All},
      {.pp = 2, .schedule = ScheduleKind::ZbH1, .post_validate = true},
  };
  std::map<std::string, DamageTally> tallies;
  for (const Case& c : layouts) {
    DamageRun run(c);
    run.run(stride);
    for (const auto& [name, tally] : run.tallies()) {
      for (const auto& [rule, count] : tally.refused) tallies[name].refused[rule] += count;
      tallies[name].valid += tally.valid;
      tallies[name].run += tally.run;
    }
  }
  for (const auto& [name, tally] : tallies) {
    std::string rules;
    for (const auto& [rule, count] : tally.refused) rules += fmt::format(" {} {}", rule, count);
    fmt::print("{:<24} refused:{}; another valid program: {} ({} run)\n", name, rules, tally.valid,
               tally.run);
    EXPECT_FALSE(tally.refused.empty()) << name;
    const bool may_be_valid = name.rfind("swap", 0) == 0 || name == "too early";
    EXPECT_TRUE(may_be_valid || tally.valid == 0) << name;
  }
}

TEST(Damage, IsRefusedOrChangesNoBit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "thousands of plans";
#endif
  expect_refused_or_without_effect(4);
}

TEST(DamageInFull, IsRefusedOrChangesNoBit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "tens of thousands of plans";
#endif
  expect_refused_or_without_effect(1);
}

TEST(Damage, MicrobatchesOfAnotherRankAreNoticed) {
  for (const int zero : {0, 2}) {
    const RunPlan plan = plan_of({.dp = 2, .zero = zero});
    std::vector<RankPlan> ranks = rank_plans(plan);
    std::swap(ranks[0].microbatches, ranks[1].microbatches);
    std::vector<Problem> problems = check_ranks(plan.schedule, plan.mesh, ranks, plan.mode);
    ASSERT_FALSE(problems.empty());
    EXPECT_EQ(problems.front().rule, "data");
    ranks[0].microbatches = ranks[1].microbatches;
    problems = check_ranks(plan.schedule, plan.mesh, ranks, plan.mode);
    ASSERT_FALSE(problems.empty());
    EXPECT_EQ(problems.back().rule, "data") << problems.back().message;
  }
}

// Sums of each direction over three ranks, and over two groups of three, use other trees than the
// tree over all micro-batches.
TEST(Damage, AnotherTreeOfSumsIsNoticed) {
  const auto expect_noticed = [](const RunPlan& plan, const std::vector<RankPlan>& ranks) {
    const std::vector<Problem> problems = check_ranks(plan.schedule, plan.mesh, ranks, plan.mode);
    ASSERT_FALSE(problems.empty());
    EXPECT_EQ(problems.front().rule, "sum") << problems.front().message;
    EXPECT_NE(problems.front().message.find("not the two halves"), std::string::npos);
  };
  const Case two_directions{.dp = 3, .pp = 2, .schedule = ScheduleKind::Dualpipe, .sequences = 12};
  RunPlan plan = plan_of(two_directions);
  std::vector<RankPlan> ranks = rank_plans(plan);
  for (RankPlan& rank : ranks) {
    rank.joins_directions_first = false;
    rank.microbatches = MicrobatchMap::contiguous_halves(4, 3, rank.coords.dp);
    const auto joins = std::find_if(rank.program.begin(), rank.program.end(), [](const Action& a) {
      return a.kind == ActionKind::JoinDirections;
    });
    ASSERT_NE(joins, rank.program.end());
    std::stable_partition(joins, rank.program.end(),
                          [](const Action& a) { return a.kind == ActionKind::ReduceGrad; });
  }
  expect_noticed(plan, ranks);

  plan = plan_of({.dp = 6, .zero = 1, .hsdp_shard = 2, .sequences = 6});
  ranks = rank_plans(plan);
  ASSERT_TRUE(check_ranks(plan.schedule, plan.mesh, ranks, plan.mode).empty());
  for (RankPlan& rank : ranks) rank.zero = {1, 3, rank.coords.dp % 3};
  expect_noticed(plan, ranks);
}

// Without the checker, the runtime or the numbers reveal the damage.
TEST(Damage, IsNoticedByTheRunWhereNobodyHasChecked) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a damaged program uses dead memory, for which a sanitizer ends the process";
#endif
  const Case layouts[] = {{.dp = 2}, {.dp = 2, .zero = 1}, {.dp = 2, .pp = 2, .zero = 2}};
  int noticed = 0;
  for (const Case& c : layouts) {
    const RunPlan plan = plan_of(c);
    const LayoutRun whole = run_layout(plan, {.end = 2});
    const std::vector<RankPlan> intact = rank_plans(plan);
    for (size_t position = 0; position < intact[0].program.size(); position += 5) {
      std::vector<RankPlan> ranks = intact;
      const ActionKind kind = intact[0].program[position].kind;
      bool is_damaged = false;
      // The damage is on all data-parallel ranks, because damage on one rank only causes a mismatch
      // or a hang.
      for (RankPlan& rank : ranks) {
        if (rank.coords.pp != 0) continue;
        if (kind == ActionKind::BW) {
          is_damaged = change_accumulate(rank.program, position);
        } else if (kind == ActionKind::ReduceGrad || kind == ActionKind::SumGrad ||
                   joins_ranks(kind) || kind == ActionKind::Unshard) {
          is_damaged = drop(rank.program, position);
        }
      }
      if (!is_damaged) continue;
      std::string why;
      EXPECT_FALSE(runs_with_equal_bits(plan, ranks, whole, why)) << c.name() << " at " << position;
      ++noticed;
    }
  }
  EXPECT_GT(noticed, 10);
}

}  // namespace
}  // namespace trireme
