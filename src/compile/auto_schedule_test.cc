#include "compile/auto_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compile/stage_cost.h"
#include "planner/make_plan.h"
#include "predict/predict.h"
#include "program/make_schedule.h"

namespace trireme {
namespace {

// Makes models with uneven stages: a head as expensive as many layers, recomputation, any number of
// micro-batches.
RunConfig random_run(unsigned seed) {
  std::mt19937 random(seed);
  const auto one_of = [&](std::initializer_list<int> values) {
    return *(values.begin() + random() % values.size());
  };
  RunConfig config;
  config.model.layers = one_of({4, 7, 8, 11});
  config.model.d_model = 32;
  config.model.heads = 4;
  config.model.vocab_size = one_of({19, 300, 3000});
  config.model.seq_len = one_of({8, 64});
  config.data.source = DataSource::Synthetic;
  config.batch.global_sequences = one_of({3, 4, 8, 12});
  config.batch.micro_sequences = 1;
  config.parallel.pp = one_of({1, 2, 3, 4});
  config.parallel.schedule = ScheduleKind::Auto;
  config.memory.recompute = kRecomputes[random() % 3];
  return config;
}

HostFacts random_host(unsigned seed) {
  std::mt19937 random(seed);
  HostFacts host;
  if (random() % 3 == 0) return host;
  std::uniform_real_distribution<double> draw(1, 3);
  host.hardware = nominal_hardware();
  host.hardware->matmul_share = 1 / draw(random);
  host.hardware->memory_bytes_per_s *= draw(random);
  host.hardware->set_nodes(0, {1e4 * draw(random), 0.02 * draw(random)});
  return host;
}

int64_t largest_rank(const RunPlan& plan) { return plan.largest().memory.arena_bytes; }

// Makespan of a named schedule for the costs that the search had; infinite if it is infeasible.
double named_makespan(RunConfig config, const HostFacts& host, ScheduleKind kind) {
  config.parallel.schedule = kind;
  const Result<RunPlan> plan = make_plan(config, host);
  if (!plan.ok()) return 1e300;
  return simulate_plan(*plan, host.hardware.value_or(nominal_hardware()))->makespan_s;
}

// The ranks execute the plan's schedule, so its makespan is the simulated step.
TEST(AutoSchedule, IsNotSlowerThanAnyNamedScheduleOnUnevenStages) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    const RunConfig config = random_run(seed);
    const HostFacts host = random_host(seed);
    const Result<RunPlan> plan = make_plan(config, host);
    ASSERT_TRUE(plan.ok()) << seed << ": " << plan.error().message;
    const Hardware hardware = host.hardware.value_or(nominal_hardware());
    const double makespan = simulate_plan(*plan, hardware)->makespan_s;
    for (const ScheduleKind kind : kNamedSchedules) {
      if (traits_of(kind).param_copies() > 1) continue;
      EXPECT_LE(makespan, named_makespan(config, host, kind) * (1 + 1e-9))
          << "seed " << seed << " " << name_of(kind);
    }
  }
}

// With a memory limit the schedule fits and is not slower than any named schedule that fits.
TEST(AutoSchedule, KeepsTheMemoryLimitOfAPlanAndIsStillTheFastest) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    RunConfig config = random_run(seed);
    config.model.seq_len = 64;
    config.parallel.pp = 2 + int(seed % 2);
    const int64_t most = largest_rank(make_plan(config, {}).value());
    config.parallel.schedule = ScheduleKind::OneFOneB;
    const int64_t lean = largest_rank(make_plan(config, {}).value());
    config.parallel.schedule = ScheduleKind::Auto;
    for (const double part : {0.0, 0.4, 0.8}) {
      config.memory.limit_bytes = lean + int64_t(part * double(std::max(lean, most) - lean));
      const Result<RunPlan> plan = make_plan(config, {});
      ASSERT_TRUE(plan.ok()) << seed << ": " << plan.error().message;
      EXPECT_LE(largest_rank(*plan), config.memory.limit_bytes) << seed;
      const double makespan = simulate_plan(*plan, nominal_hardware())->makespan_s;
      for (const ScheduleKind kind : kNamedSchedules) {
        if (traits_of(kind).param_copies() > 1) continue;
        EXPECT_LE(makespan, named_makespan(config, {}, kind) * (1 + 1e-9))
            << seed << " " << name_of(kind);
      }
    }
  }
}

Program computations(const Program& program) {
  Program result;
  for (const Action& action : program) {
    const ActionKind kind = action.kind;
    const bool computes = kind == ActionKind::F || kind == ActionKind::B || kind == ActionKind::W ||
                          kind == ActionKind::BW;
    if (computes) {
      result.push_back({.kind = kind, .chunk = action.chunk, .microbatch = action.microbatch});
    }
  }
  return result;
}

TEST(AutoSchedule, IsWhatEveryRankExecutes) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const RunPlan plan = make_plan(random_run(seed), random_host(seed)).value();
    EXPECT_EQ(plan.schedule.kind, "auto");
    for (const RankPlan& rank : rank_plans(plan)) {
      EXPECT_EQ(computations(rank.program),
                computations(plan.schedule.programs[size_t(rank.coords.pp)]));
    }
  }
}

TEST(AutoSchedule, IsTheSameForEveryRankAndRun) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const RunPlan first = make_plan(random_run(seed), random_host(seed)).value();
    const RunPlan second = make_plan(random_run(seed), random_host(seed)).value();
    EXPECT_EQ(first.schedule.programs, second.schedule.programs);
  }
}

// The stages together do all the work of one rank, and nothing else.
TEST(StageCost, StagesTogetherAreTheModel) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const RunPlan plan = make_plan(random_run(seed), {}).value();
    const ComputeTimes whole = price_units(plan, nominal_hardware()).of(whole_model(plan.model));
    for (int stages = 1; stages <= 4; ++stages) {
      const Costs costs = pipeline_costs(plan, price_places(plan, nominal_hardware()),
                                         split_stages(plan, stages).value(), nominal_hardware());
      StageTimes sum{0, 0, 0};
      for (const StageTimes& stage : costs.stages) {
        sum = {sum.f_s + stage.f_s, sum.b_s + stage.b_s, sum.w_s + stage.w_s};
      }
      EXPECT_NEAR(sum.f_s, whole.f_s, 1e-9 * whole.f_s);
      EXPECT_NEAR(sum.b_s, whole.b_s, 1e-9 * whole.b_s);
      EXPECT_NEAR(sum.w_s, whole.w_s, 1e-9 * whole.w_s);
    }
  }
}

}  // namespace
}  // namespace trireme
