#include "predict/disturbed_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"
#include "program/stage_graph.h"

namespace trireme {
namespace {

// ---- brute force: every rank is followed by itself

// When the rank of a stage that a message goes to begins to wait for it, and when its sender is
// done, decide when it leaves. Finds an action of a program.
size_t index_of(const Program& program, ActionKind kind, int chunk, int microbatch) {
  for (size_t i = 0; i < program.size(); ++i) {
    const Action& action = program[i];
    if (action.kind == kind && action.chunk == chunk && action.microbatch == microbatch) return i;
  }
  return program.size();
}

// Ends of all actions of all ranks, found by repeating the rules until nothing changes. Links have
// a latency and no limit of bandwidth. It knows no classes, no pipelines and no order of visits.
class AllRanks {
 public:
  AllRanks(const PricedPlan& priced, const std::vector<double>& factors,
           const std::function<bool(int, int)>& together)
      : priced_(priced), mesh_(priced.plan.mesh), graph_(priced.plan.schedule), factors_(factors) {
    const int num_ranks = priced.plan.num_ranks();
    ends_.resize(size_t(num_ranks));
    for (int rank = 0; rank < num_ranks; ++rank) {
      ends_[size_t(rank)].resize(program_of(rank).size());
      peers_.emplace_back();
      for (int other = 0; other < num_ranks; ++other) {
        if (together(rank, other)) peers_.back().push_back(other);
      }
    }
    while (improve()) {
    }
  }

  double step_s() const {
    double end_s = 0.0, step_s = 0.0;
    for (const std::vector<double>& ends : ends_) end_s = std::max(end_s, ends.back());
    for (size_t rank = 0; rank < ends_.size(); ++rank) {
      const StepTimes& stage = priced_.stages[size_t(coords_of(mesh_, int(rank)).pp)];
      const double rest_s = stage.step - priced_.makespan_s - stage.optimizer;
      step_s = std::max(step_s, end_s + rest_s + factors_[rank] * stage.optimizer);
    }
    return step_s;
  }

 private:
  const Program& program_of(int rank) const {
    return priced_.plan.schedule.programs[size_t(coords_of(mesh_, rank).pp)];
  }
  int rank_at(int like, int pp) const {
    MeshCoords coords = coords_of(mesh_, like);
    coords.pp = pp;
    return position_of(mesh_, coords);
  }

  bool improve() {
    bool changed = false;
    for (size_t rank = 0; rank < ends_.size(); ++rank) {
      for (size_t i = 0; i < ends_[rank].size(); ++i) {
        const double end = end_of(int(rank), i);
        changed = changed || end > ends_[rank][i];
        ends_[rank][i] = std::max(ends_[rank][i], end);
      }
    }
    return changed;
  }

  double end_of(int rank, size_t i) const {
    double end = 0.0;
    for (const int peer : peers_[size_t(rank)]) {
      end = std::max(end, start_of(peer, i) + slowest_of(rank, i));
    }
    return end;
  }
  double slowest_of(int rank, size_t i) const {
    double seconds = 0.0;
    for (const int peer : peers_[size_t(rank)]) {
      const auto [compute_s, moved_s] = times_of(rank, program_of(rank)[i]);
      seconds = std::max(seconds, factors_[size_t(peer)] * compute_s + moved_s);
    }
    return seconds;
  }
  // Seconds of kernels and of the collectives in them.
  std::pair<double, double> times_of(int rank, const Action& action) const {
    if (action.chunk < 0) return {0.0, 0.0};
    const size_t stage = size_t(graph_.stage(coords_of(mesh_, rank).pp, action.chunk));
    const StageTimes &compute = priced_.compute[stage], &all = priced_.costs.stages[stage];
    switch (action.kind) {
      case ActionKind::F:
        return {compute.f_s, all.f_s - compute.f_s};
      case ActionKind::B:
        return {compute.b_s, all.b_s - compute.b_s};
      case ActionKind::W:
        return {compute.w_s, all.w_s - compute.w_s};
      case ActionKind::BW:
        return {compute.b_s + compute.w_s, all.bw_s - compute.b_s - compute.w_s};
      default:
        return {0.0, 0.0};
    }
  }

  double start_of(int rank, size_t i) const {
    const Action& action = program_of(rank)[i];
    const double before_s = i == 0 ? 0.0 : ends_[size_t(rank)][i - 1];
    const bool is_backward = action.kind == ActionKind::B || action.kind == ActionKind::BW;
    if (action.kind != ActionKind::F && !is_backward) return before_s;
    return std::max(before_s, arrival(rank, action, !is_backward));
  }
  double arrival(int rank, const Action& action, bool is_activation) const {
    const int pp = coords_of(mesh_, rank).pp;
    const StagePlace from =
        is_activation ? graph_.previous(pp, action.chunk) : graph_.next(pp, action.chunk);
    if (!from.exists()) return 0.0;
    const auto end = [&](int at, std::initializer_list<ActionKind> kinds, int chunk) {
      for (const ActionKind kind : kinds) {
        const size_t i = index_of(program_of(at), kind, chunk, action.microbatch);
        if (i < program_of(at).size()) return ends_[size_t(at)][i];
      }
      ADD_FAILURE() << "no such action";
      return 0.0;
    };
    const int sender = rank_at(rank, from.rank);
    if (sender == rank) {
      return is_activation ? end(rank, {ActionKind::F}, from.chunk)
                           : end(rank, {ActionKind::B, ActionKind::BW}, from.chunk);
    }
    const double sent_s = end(
        sender, {is_activation ? ActionKind::SendActivation : ActionKind::SendGrad}, from.chunk);
    const double taken_s = end(
        rank, {is_activation ? ActionKind::RecvActivation : ActionKind::RecvGrad}, action.chunk);
    return std::max(sent_s, taken_s) + priced_.costs.link_of(from.rank, pp).latency_s;
  }

  const PricedPlan& priced_;
  const Mesh& mesh_;
  StageGraph graph_;
  std::vector<double> factors_;
  std::vector<std::vector<int>> peers_;    // [rank] those that share its layers
  std::vector<std::vector<double>> ends_;  // [rank][action]
};

// ---- plans

Hardware with_latency_alone() {
  Hardware hardware = two_nodes();
  hardware.set_nodes(4, {2e-5, 0.0}, {5e-5, 0.0});
  return hardware;
}

std::vector<RunConfig> layouts_of_ranks(int num_ranks) {
  std::vector<RunConfig> configs;
  for (const int tp : {1, 2, 4}) {
    for (const int cp : {1, 2, 4}) {
      for (const int pp : {1, 2, 4, 8}) {
        for (const int ep : {1, 2, 4}) {
          if (num_ranks % (tp * cp * pp) != 0) continue;
          const int dp = num_ranks / (tp * cp * pp);
          if ((dp * cp) % ep != 0) continue;
          RunConfig config = small_run(ep > 1 ? ModelFamily::Moe : ModelFamily::Gpt2, 8);
          config.parallel.tp = tp;
          config.parallel.cp = cp;
          config.parallel.pp = pp;
          config.parallel.ep = ep;
          config.parallel.dp = dp;
          config.batch.global_sequences = 4 * dp;
          configs.push_back(config);
        }
      }
    }
  }
  return configs;
}

std::string text_of(const ParallelConfig& parallel) {
  return "tp " + std::to_string(parallel.tp) + " cp " + std::to_string(parallel.cp) + " pp " +
         std::to_string(parallel.pp) + " dp " + std::to_string(parallel.dp) + " ep " +
         std::to_string(parallel.ep) + ", " + std::string(name_of(parallel.schedule)) + ", ZeRO " +
         std::to_string(parallel.zero) + " of " + std::to_string(parallel.hsdp_shard);
}

std::vector<RunPlan> make_small_plans() {
  std::vector<RunPlan> plans;
  for (int num_ranks = 1; num_ranks <= 8; ++num_ranks) {
    for (RunConfig config : layouts_of_ranks(num_ranks)) {
      for (const ScheduleKind schedule :
           {ScheduleKind::Gpipe, ScheduleKind::OneFOneB, ScheduleKind::ZbH1, ScheduleKind::ZbV}) {
        if (config.parallel.pp == 1 && schedule != ScheduleKind::OneFOneB) continue;
        for (const auto& [zero, shard] : {std::pair{0, 0}, {3, 0}, {3, 2}}) {
          if (shard > 0 && config.parallel.dp % shard != 0) continue;
          config.parallel.schedule = schedule;
          config.parallel.zero = zero;
          config.parallel.hsdp_shard = shard;
          Result<RunPlan> plan = make_plan(config, {});
          if (plan.ok()) plans.push_back(std::move(*plan));
        }
      }
    }
  }
  return plans;
}

// Plans of every mesh of 1 to 8 ranks, with several schedules and ZeRO levels. They are made once.
void for_each_small_plan(const std::function<void(const RunPlan&)>& visit) {
  static const std::vector<RunPlan> plans = make_small_plans();
  EXPECT_GT(plans.size(), 100u);
  for (const RunPlan& plan : plans) {
    SCOPED_TRACE(text_of(plan.config.parallel));
    visit(plan);
  }
}

// A disturbed step with the times that it reads.
class Disturbed {
 public:
  Disturbed(const PricedPlan& priced, const std::vector<SlowedRank>& slow, const Jitter& jitter)
      : extra_(priced.plan, priced.compute, jitter), step_(priced, slow, extra_) {}
  const DisturbedStep* operator->() const { return &step_; }

 private:
  ExtraTimes extra_;
  DisturbedStep step_;
};

// True if two ranks of one stage wait for each other inside layers: they differ in tp and cp alone,
// or exchange tokens of experts, or gather parameters from each other.
bool share_layers(const RunPlan& plan, int a, int b) {
  const MeshCoords x = coords_of(plan.mesh, a), y = coords_of(plan.mesh, b);
  if (x.pp != y.pp) return false;
  const ParallelConfig& parallel = plan.config.parallel;
  const int shard = parallel.hsdp_shard > 0 ? parallel.hsdp_shard : parallel.dp;
  const int gathering = parallel.zero == 3 ? shard : 1;
  const int exchanging = std::max(1, parallel.ep / parallel.cp);
  const int together = std::max(gathering, exchanging);  // both are powers of two here, or dp
  return x.dp / together == y.dp / together;
}

TEST(DisturbedStep, IsWhatAllRanksDoOneByOne) {
  const Hardware hardware = with_latency_alone();
  for_each_small_plan([&](const RunPlan& plan) {
    const Result<PricedPlan> priced = price_plan(plan, hardware);
    ASSERT_TRUE(priced.ok()) << priced.error().message;
    for (int slow = 0; slow < plan.num_ranks(); slow += 3) {
      const std::vector<SlowedRank> ranks = {{slow, 1.7}, {(slow + 5) % plan.num_ranks(), 1.2}};
      const size_t used = ranks[0].position == ranks[1].position ? 1 : 2;
      std::vector<double> factors(size_t(plan.num_ranks()), 1.0);
      for (size_t i = 0; i < used; ++i) factors[size_t(ranks[i].position)] = ranks[i].factor;
      const Disturbed step(*priced, {ranks.begin(), ranks.begin() + int64_t(used)}, {});
      const AllRanks all(*priced, factors, [&](int a, int b) { return share_layers(plan, a, b); });
      EXPECT_NEAR(step->step_s(), all.step_s(), 1e-12 * all.step_s()) << "slow rank " << slow;
    }
  });
}

TEST(DisturbedStep, IsThePredictedStepToTheLastBitIfNothingIsDisturbed) {
  for_each_small_plan([&](const RunPlan& plan) {
    const Hardware hardware = two_nodes();
    const Result<PricedPlan> priced = price_plan(plan, hardware);
    ASSERT_TRUE(priced.ok());
    EXPECT_EQ(Disturbed(*priced, {}, {})->step_s(), predicted_step_s(plan, hardware));
    EXPECT_EQ(Disturbed(*priced, {{0, 1.0}}, {})->step_s(), predicted_step_s(plan, hardware));
    EXPECT_EQ(Disturbed(*priced, {}, {.sigma = 0.0, .seed = 3})->step_s(),
              predicted_step_s(plan, hardware));
  });
}

// With jitter as well, because its factors depend on ranks and actions alone.
TEST(DisturbedStep, IsNeverShorterWithASlowerRank) {
  for_each_small_plan([&](const RunPlan& plan) {
    const Result<PricedPlan> priced = price_plan(plan, two_nodes());
    ASSERT_TRUE(priced.ok());
    for (const double sigma : {0.0, 0.2}) {
      const int rank = plan.num_ranks() / 2;
      double before_s = 0.0;
      for (const double factor : {1.0, 1.01, 1.5, 4.0}) {
        const Disturbed step(*priced, {{rank, factor}}, {.sigma = sigma, .seed = 7});
        EXPECT_GE(step->step_s(), before_s);
        before_s = step->step_s();
      }
    }
  });
}

TEST(DisturbedStep, SpendsTheWholeStepOnEveryRank) {
  for_each_small_plan([&](const RunPlan& plan) {
    const Result<PricedPlan> priced = price_plan(plan, two_nodes());
    ASSERT_TRUE(priced.ok());
    const Disturbed step(*priced, {{0, 1.4}}, {.sigma = 0.1, .seed = 1});
    for (const RankSpent& spent : step->ranks()) {
      EXPECT_NEAR(
          spent.busy_s + spent.in_layers_s + spent.for_stages_s + spent.tail_s + spent.at_end_s,
          step->step_s(), 1e-12 * step->step_s());
      for (const double seconds :
           {spent.busy_s, spent.in_layers_s, spent.for_stages_s, spent.tail_s, spent.at_end_s}) {
        EXPECT_GE(seconds, -1e-12 * step->step_s());
      }
    }
    for (int rank = 0; rank < plan.num_ranks(); ++rank) {
      EXPECT_LE(step->timeline(rank).back().end_s, step->step_s() * (1 + 1e-12));
    }
  });
}

}  // namespace
}  // namespace trireme
