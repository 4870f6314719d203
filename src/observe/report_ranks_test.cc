#include "observe/report_ranks.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "base/json_text.h"
#include "comm/world.h"
#include "data/synthetic_source.h"
#include "planner/make_plan.h"
#include "train/histograms.h"
#include "train/kernel_choice.h"
#include "train/run_fixture.h"
#include "train/step_meter.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

Hardware some_hardware() {
  Hardware hardware;
  hardware.name = "some";
  hardware.fp32_flops = 1e10;
  hardware.bf16_flops = 1e10;
  hardware.memory_bytes_per_s = 1e10;
  return hardware;
}

struct Outcome {
  RunPlan plan;
  Json ranks;
  std::vector<RankMeasurement> measured;
  HistogramReport histograms;
};

// Runs three steps and reports every rank.
Outcome run(const RunConfig& config) {
  auto plan = make_plan(config, {});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  const KernelChoice choice = choose_kernels(IsaChoice::Auto).value();
  const Hardware hardware = some_hardware();
  const Predictions predictions = predict_ranks(*plan, hardware);
  Outcome outcome{*plan, {}, {}, {}};
  run_ranks(plan->num_ranks(), {.timeout_s = 300.0}, [&](World& world) {
    const SyntheticSource source(1, plan->model.vocab_size);
    Engine engine(*plan, world, *choice.kernels, source);
    engine.init_params(1);
    StepTrace trace(engine.rank_plan(), plan->schedule.num_chunks, 2, 2);
    StepMeter meter(engine);
    int64_t valid_tokens = 0;
    for (int64_t step = 1; step <= 3; ++step) {
      meter.begin();
      const int64_t begin_ns = monotonic_ns();
      valid_tokens = engine.step(uint64_t(8 * (step - 1)), 1e-3).valid_tokens;
      meter.record(engine.executor(), double(monotonic_ns() - begin_ns) * 1e-9);
      trace.record(step, engine.executor());
    }
    const std::vector<RankMeasurement> measured = gather_measurements(engine, meter);
    const std::string ranks =
        gather_ranks_json({*plan, hardware, predictions, measured}, engine, trace);
    const HistogramReport histograms = gather_histograms(engine, valid_tokens);
    if (world.rank() != 0) return;
    outcome.ranks = parse_json(ranks);
    outcome.measured = measured;
    outcome.histograms = histograms;
  });
  return outcome;
}

std::vector<RunConfig> layouts() {
  std::vector<RunConfig> all(4, some_run());
  all[1].parallel.pp = 2;
  all[1].parallel.dp = 2;
  all[1].parallel.zero = 2;
  all[2].parallel.dp = 2;
  all[2].parallel.zero = 3;
  all[3].parallel.pp = 2;
  all[3].parallel.tp = 2;
  all[3].parallel.schedule = ScheduleKind::ZbH1;
  return all;
}

TEST(RankViews, RegionsThatLiveAtOnceDoNotOverlapAndReachThePeak) {
  for (const RunConfig& config : layouts()) {
    const Outcome outcome = run(config);
    ASSERT_EQ(outcome.ranks["ranks"].size(), size_t(outcome.plan.num_ranks()));
    for (const Json& rank : outcome.ranks["ranks"]) {
      const Json& memory = rank["memory"];
      const size_t count = rank["actions"].size();
      int64_t peak = 0;
      for (size_t action = 0; action < count; ++action) {
        int64_t live = 0;
        std::vector<std::pair<int64_t, int64_t>> taken;
        for (const Json& region : memory["regions"]) {
          for (const Json& span : region["live"]) {
            if (action < span[0].get<size_t>() || action > span[1].get<size_t>()) continue;
            live += region["bytes"].get<int64_t>();
            const auto offset = region["offset"].get<int64_t>();
            taken.emplace_back(offset, offset + region["bytes"].get<int64_t>());
          }
        }
        std::sort(taken.begin(), taken.end());
        for (size_t i = 1; i < taken.size(); ++i) EXPECT_LE(taken[i - 1].second, taken[i].first);
        EXPECT_LE(taken.back().second, memory["arena_bytes"].get<int64_t>());
        peak = std::max(peak, live);
        if (action == memory["peak_action"].get<size_t>()) {
          EXPECT_EQ(live, memory["peak_bytes"]);
        }
      }
      EXPECT_EQ(peak, memory["peak_bytes"]);
      EXPECT_EQ(peak, outcome.measured[rank["rank"].get<size_t>()].peak_bytes);
    }
  }
}

TEST(RankViews, TensorsLieInTheirRegions) {
  const Outcome outcome = run(layouts()[0]);
  int named = 0;
  for (const Json& region : outcome.ranks["ranks"][0]["memory"]["regions"]) {
    if (region["table"] == -1) continue;
    ++named;
    for (const Json& tensor : outcome.ranks["tables"].at(region["table"].get<size_t>())) {
      EXPECT_LE(tensor[1].get<int64_t>() + tensor[2].get<int64_t>(), region["bytes"]);
    }
  }
  EXPECT_GE(named, 5);
}

TEST(RankViews, TimelinesOfAllRanksStandOnOneClock) {
  const Outcome outcome = run(layouts()[1]);
  for (size_t i = 0; i < 2; ++i) {
    double first = 1e300, latest_begin = 0.0, earliest_end = 1e300;
    for (const Json& rank : outcome.ranks["ranks"]) {
      const Json& step = rank["measured"].at(i);
      EXPECT_EQ(step["step"], 2 + i);
      ASSERT_EQ(step["begin_us"].size(), rank["actions"].size());
      double before = 0.0;
      for (size_t action = 0; action < rank["actions"].size(); ++action) {
        EXPECT_GE(step["begin_us"][action], before);
        before = step["end_us"][action];
      }
      first = std::min(first, step["begin_us"][0].get<double>());
      latest_begin = std::max(latest_begin, step["begin_us"][0].get<double>());
      earliest_end = std::min(earliest_end, before);
      // The simulated timeline has the schedule's actions, then Step.
      const Json& predicted = rank["predicted"];
      EXPECT_EQ(predicted["kinds"].back(), "Step");
      EXPECT_EQ(predicted["begin_us"].size(), predicted["actions"].size());
    }
    EXPECT_EQ(first, 0.0);
    EXPECT_LT(latest_begin, earliest_end);  // the ranks run at the same time
  }
}

double waited_for(const StepTimes& time, std::string_view axis) {
  const auto found = std::find(kTrafficAxes.begin(), kTrafficAxes.end(), axis);
  return time.exposed[size_t(found - kTrafficAxes.begin())];
}

TEST(RankViews, MeasuredPartsOfAStepAreAllOfItAndTrafficIsAsPredicted) {
  std::vector<RunConfig> all = layouts();
  all.push_back(some_run());
  all.back().memory.offload = OffloadChoice::All;
  for (const RunConfig& config : all) {
    const Outcome outcome = run(config);
    for (const RankMeasurement& rank : outcome.measured) {
      const StepTimes& time = rank.time;
      EXPECT_EQ(waited_for(time, "file") > 0.0, config.memory.offload != OffloadChoice::None);
      const double exposed = std::accumulate(time.exposed.begin(), time.exposed.end(), 0.0);
      EXPECT_NEAR(exposed, time.exposed_comm, 1e-9);
      EXPECT_NEAR(time.compute + time.exposed_comm + time.bubble, time.step, 1e-9);
      EXPECT_GT(time.compute, 0.0);
      EXPECT_GT(time.optimizer, 0.0);
      EXPECT_LE(time.optimizer + time.data, time.step);
      const Mesh& mesh = outcome.plan.mesh;
      for (const auto& [axis, degree] :
           {std::pair{"tp", mesh.tp}, std::pair{"cp", mesh.cp}, std::pair{"dp", mesh.dp},
            std::pair{"pp", mesh.pp}, std::pair{"world", mesh.size()}}) {
        if (degree > 1) continue;
        EXPECT_EQ(waited_for(time, axis), 0.0) << axis;
      }
      const AxisBytes predicted = predict_traffic(
          outcome.plan, rank_plan(outcome.plan, rank.position), outcome.plan.num_ranks());
      for (const auto& [axis, bytes] : predicted) {
        for (const auto& [name, sent] : rank.traffic) {
          if (name == axis) {
            EXPECT_EQ(sent, bytes) << axis;
          }
        }
      }
    }
  }
}

TEST(Histograms, HoldEveryElementOfTheModelOnceOnEveryLayout) {
  std::vector<int64_t> sizes;
  for (const RunConfig& config : layouts()) {
    const Outcome outcome = run(config);
    for (const auto* all : {&outcome.histograms.weights, &outcome.histograms.grads}) {
      int64_t total = 0;
      for (const TensorHistogram& one : *all) {
        EXPECT_EQ(std::accumulate(one.counts.begin(), one.counts.end(), 0.0), double(one.num));
        total += one.num;
      }
      EXPECT_EQ(total, outcome.plan.num_params);
    }
  }
}

TEST(Histograms, DoNotDependOnTheLayout) {
  RunConfig whole = layouts()[0], split = layouts()[1];
  whole.run.reproducible = split.run.reproducible = Reproducible::Layout;
  const HistogramReport a = run(whole).histograms, b = run(split).histograms;
  ASSERT_EQ(a.grads.size(), b.grads.size());
  for (size_t i = 0; i < a.grads.size(); ++i) {
    EXPECT_EQ(a.grads[i].name, b.grads[i].name);
    EXPECT_EQ(a.grads[i].counts, b.grads[i].counts) << a.grads[i].name;
    EXPECT_EQ(a.weights[i].counts, b.weights[i].counts) << a.weights[i].name;
  }
}

TEST(ShownRanks, AreAllOfAFewAndTheTellingOnesOfMany) {
  const RunPlan plan = make_plan(some_run(), {}).value();
  for (const int count : {1, 4, 16, 17, 400}) {
    std::vector<RankMeasurement> measured{size_t(count)};
    for (int rank = 0; rank < count; ++rank) {
      measured[size_t(rank)].time.compute = double((rank * 7 + 3) % count);
    }
    const std::vector<ShownRank> shown = shown_ranks(measured, plan, "1,399");
    EXPECT_LE(shown.size(), 16u);
    if (count <= 16) {
      EXPECT_EQ(shown.size(), size_t(count));
    }
    int previous = -1;
    std::vector<std::string> reasons;
    for (const ShownRank& one : shown) {
      EXPECT_GT(one.rank, previous);
      previous = one.rank;
      reasons.push_back(one.why);
      if (one.why == "median") {
        EXPECT_EQ(measured[size_t(one.rank)].time.compute, count / 2);
      }
      if (one.why == "slowest") {
        EXPECT_EQ(measured[size_t(one.rank)].time.compute, count - 1);
      }
    }
    EXPECT_EQ(std::count(reasons.begin(), reasons.end(), "slowest"), 1);
    EXPECT_EQ(std::count(reasons.begin(), reasons.end(), "median"), count > 2 ? 1 : 0);
    if (count == 400) {
      EXPECT_EQ(std::count(reasons.begin(), reasons.end(), "chosen"), 2);
    }
  }
}

}  // namespace
}  // namespace trireme
