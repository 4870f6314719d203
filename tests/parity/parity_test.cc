#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>

#include "layout_run.h"
#include "planner/compile_plan.h"
#include "program/make_schedule.h"

namespace trireme {
namespace {

// A layout and what may not change a bit beside it.
struct Case {
  int dp = 1;
  int pp = 1;
  std::string schedule = "1f1b";
  int zero = 0;
  int hsdp_shard = 0;
  std::string recompute = "none";
  std::string family = "gpt2";
  std::string compute = "fp32";
  double dropout = 0.0;
  int tp = 1;
  bool sequence = false;
  int cp = 1;
  int ep = 1;

  std::string name() const {
    return fmt::format(
        "{} {} tp {}{} cp {} ep {} dp {} pp {} {} zero {} hsdp {} recompute {} dropout {}", family,
        compute, tp, sequence ? " sequence" : "", cp, ep, dp, pp, schedule, zero, hsdp_shard,
        recompute, dropout);
  }
};

RunConfig config_of(const Case& c) {
  RunConfig config;
  const bool has_experts = c.family.starts_with("moe");
  config.model.family = c.family == "llama" ? ModelFamily::Llama
                        : has_experts       ? ModelFamily::Moe
                                            : ModelFamily::Gpt2;
  config.model.tied_head = c.family == "gpt2";
  if (has_experts) {
    config.model.d_ff = 8;
    config.model.experts = 4;
    config.model.shared_experts = 1;
    config.model.z_loss = 0.001;
    config.model.balance_rate = 0.01;
    if (c.family == "moe_capacity") config.model.capacity_factor = 1.0;
  }
  config.model.layers = 8;
  config.model.d_model = 8;
  config.model.heads = 2;
  if (c.family == "llama") config.model.kv_heads = 1;  // which two tensor-parallel ranks both hold
  config.model.vocab_size = 19;
  config.model.seq_len = 4;
  config.model.init_stddev = 0.2;
  config.model.dropout = c.dropout;
  config.data.source = "synthetic";
  config.batch.global_sequences = 16;
  config.batch.micro_sequences = 1;
  config.optim.clip_norm = 0.5;
  config.parallel.dp = c.dp;
  config.parallel.tp = c.tp;
  config.parallel.sequence = c.sequence;
  config.parallel.cp = c.cp;
  config.parallel.ep = c.ep;
  config.parallel.pp = c.pp;
  config.parallel.schedule = c.schedule;
  config.parallel.zero = c.zero;
  config.parallel.hsdp_shard = c.hsdp_shard;
  config.memory.recompute = c.recompute;
  config.precision.compute = c.compute;
  config.run.reproducible = "layout";
  config.run.threads_per_rank = 1;
  config.run.comm_timeout_s = 20.0;
  return config;
}

RunPlan plan_of(const Case& c) {
  Result<RunPlan> plan = make_plan(config_of(c), {});
  TRIREME_CHECK(plan.ok(), c.name() + ": " + plan.error().message);
  return *plan;
}

bool is_possible(const Case& c) { return make_plan(config_of(c), {}).ok(); }

// The run that every layout of a model must repeat: one rank, or as many as share its layers.
const LayoutRun& reference_of(const Case& c) {
  static std::map<std::string, LayoutRun> runs;
  const std::string key =
      fmt::format("{} {} {} {} {} {}", c.family, c.compute, c.dropout, c.tp, c.sequence, c.cp);
  const auto found = runs.find(key);
  if (found != runs.end()) return found->second;
  const Case one{.family = c.family,
                 .compute = c.compute,
                 .dropout = c.dropout,
                 .tp = c.tp,
                 .sequence = c.sequence,
                 .cp = c.cp};
  return runs.emplace(key, run_layout(plan_of(one))).first->second;
}

void expect_the_bits_of_one_rank(const Case& c) {
  SCOPED_TRACE(c.name());
  const LayoutRun run = run_layout(plan_of(c));
  EXPECT_EQ(difference(run, reference_of(c)), "");
  EXPECT_EQ(run.differences, "");
}

// Every schedule and ZeRO stage of `ranks` ranks, with every recomputation or with one in turn.
void enumerate(int ranks, bool every_recomputation) {
  const std::vector<std::string> recomputations = {"none", "selective", "full"};
  const std::vector<std::string> families = {"gpt2", "llama", "moe", "moe_capacity"};
  int run = 0;
  for (int pp = 1; pp <= ranks; pp *= 2) {
    for (const std::string& schedule : schedule_kinds()) {
      for (int zero = 0; zero <= 3; ++zero) {
        Case c{.dp = ranks / pp, .pp = pp, .schedule = schedule, .zero = zero};
        if ((zero > 0 && c.dp == 1) || !is_possible(c)) continue;
        const size_t first = every_recomputation ? 0 : size_t(run) % recomputations.size();
        const size_t count = every_recomputation ? recomputations.size() : 1;
        for (size_t i = first; i < first + count; ++i) {
          c.recompute = recomputations[i];
          c.family = families[size_t(run) % families.size()];
          expect_the_bits_of_one_rank(c);
          ++run;
        }
      }
    }
  }
  EXPECT_GT(run, 0);
}

TEST(Parity, OneRank) { enumerate(1, true); }
TEST(Parity, TwoRanks) { enumerate(2, false); }
TEST(Parity, FourRanks) { enumerate(4, false); }
TEST(Parity, EightRanks) { enumerate(8, false); }
TEST(ParityInFull, TwoRanks) { enumerate(2, true); }
TEST(ParityInFull, FourRanks) { enumerate(4, true); }
TEST(ParityInFull, EightRanks) { enumerate(8, true); }

void expect_near(const LayoutRun& split, const LayoutRun& whole) {
  for (size_t step = 0; step < whole.losses.size(); ++step) {
    EXPECT_NEAR(split.losses[step], whole.losses[step], 2e-5 * whole.losses[step]);
    EXPECT_NEAR(split.grad_norms[step], whole.grad_norms[step], 1e-4 * whole.grad_norms[step]);
  }
  double squared_norm = 0.0;
  for (const auto& [name, moment] : whole.first_moments) {
    for (const float value : moment) squared_norm += double(value) * value;
  }
  for (const auto& [name, moment] : whole.first_moments) {
    double squared_difference = 0.0, squared = 0.0;
    for (size_t i = 0; i < moment.size(); ++i) {
      const double difference = double(split.first_moments.at(name)[i]) - moment[i];
      squared_difference += difference * difference;
      squared += double(moment[i]) * moment[i];
    }
    const double scale = std::max(std::sqrt(squared), 1e-3 * std::sqrt(squared_norm));
    EXPECT_LE(std::sqrt(squared_difference), 2e-5 * scale) << name;
  }
}

// Splitting a layer changes the order of sums: within the bound on the first step's gradients (as
// moments) and on losses, and bitwise for whatever else is laid over it.
TEST(Parity, TensorSequenceAndContextParallel) {
  for (const char* family : {"gpt2", "llama", "moe"}) {
    const Case splits[] = {{.family = family, .tp = 2},
                           {.family = family, .tp = 2, .sequence = true},
                           {.family = family, .cp = 2},
                           {.family = family, .tp = 2, .cp = 2}};
    for (const Case& alone : splits) {
      SCOPED_TRACE(alone.name());
      const LayoutRun& split = reference_of(alone);
      EXPECT_EQ(split.differences, "");
      expect_near(split, reference_of({.family = family}));
      for (const int zero : {0, 1, 2, 3}) {
        Case c = alone;
        c.dp = 2;
        c.zero = zero;
        expect_the_bits_of_one_rank(c);
        if (c.tp * c.cp > 2) continue;
        c.pp = 2;
        c.schedule = zero % 2 == 0 ? "zb_h1" : "interleaved";
        c.recompute = zero == 3 ? "full" : "selective";
        expect_the_bits_of_one_rank(c);
      }
    }
  }
}

// Experts on several ranks: within the bound of one rank, the same visits; and the bits of the same
// ranks whatever the schedule, recomputation and the way gradients and state are stored.
TEST(Parity, ExpertParallel) {
  for (const char* family : {"moe", "moe_capacity"}) {
    const LayoutRun& whole = reference_of({.family = family});
    for (const int dp : {2, 4}) {
      for (int ep = 2; ep <= dp; ep *= 2) {
        const Case alone{.dp = dp, .family = family, .ep = ep};
        SCOPED_TRACE(alone.name());
        const LayoutRun first = run_layout(plan_of(alone));
        EXPECT_EQ(first.differences, "");
        EXPECT_EQ(first.expert_loads, whole.expert_loads);
        expect_near(first, whole);
        Case c = alone;
        c.zero = 1;
        c.pp = 2;
        c.schedule = "zb_h1";
        c.recompute = "full";
        const LayoutRun second = run_layout(plan_of(c));
        EXPECT_EQ(second.differences, "");
        EXPECT_EQ(difference(second, first), "");
        for (const int zero : {2, 3}) {  // other micro-batches meet in the experts
          Case sharded = alone;
          sharded.zero = zero;
          sharded.recompute = "selective";
          const LayoutRun run = run_layout(plan_of(sharded));
          EXPECT_EQ(run.differences, "");
          expect_near(run, whole);
          EXPECT_EQ(run.expert_loads, whole.expert_loads);
        }
      }
    }
  }
}

TEST(Parity, ACheckpointOfExpertsMovesBetweenLayouts) {
  const Case layouts[] = {{.family = "moe"},
                          {.dp = 4, .zero = 3, .family = "moe", .ep = 2},
                          {.dp = 2, .pp = 2, .zero = 1, .family = "moe", .ep = 2}};
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("trireme-experts-{}", getpid());
  const LayoutRun& whole = reference_of(layouts[0]);
  int number = 0;
  for (const Case& from : layouts) {
    const std::string folder = (root / std::to_string(number++)).string();
    run_layout(plan_of(from), {.end = 2, .save_to = folder});
    for (const Case& to : layouts) {
      SCOPED_TRACE(from.name() + " -> " + to.name());
      const LayoutRun rest =
          run_layout(plan_of(to), {.first = 2, .end = 5, .load_from = folder + "/step-000002"});
      EXPECT_NEAR(rest.losses.back(), whole.losses.back(), 2e-5 * whole.losses.back());
    }
  }
  std::filesystem::remove_all(root);
}

TEST(Parity, SharedAndCopiedShards) {
  for (const int zero : {1, 2, 3}) {
    expect_the_bits_of_one_rank({.dp = 4, .zero = zero, .hsdp_shard = 2});
    expect_the_bits_of_one_rank(
        {.dp = 4, .pp = 2, .schedule = "zb_h1", .zero = zero, .hsdp_shard = 2});
  }
}

TEST(Parity, Bf16AndDropout) {
  for (const char* compute : {"fp32", "bf16"}) {
    for (const int zero : {0, 1, 2, 3}) {
      expect_the_bits_of_one_rank(
          {.dp = 2, .pp = 2, .schedule = "zb_v", .zero = zero, .compute = compute, .dropout = 0.1});
    }
  }
}

// Every value of every factor beside every value of every other, in few cases of 2 and 4 ranks.
class PairwiseCover {
 public:
  using Choice = std::array<int, 9>;  // of each factor below

  std::vector<Case> run() {
    std::vector<Choice> choices = all();
    std::shuffle(choices.begin(), choices.end(), std::mt19937(7));
    std::vector<Case> cover;
    for (int new_pairs = 36; new_pairs > 0; --new_pairs) {  // the richest first
      for (const Choice& choice : choices) {
        if (count_new(choice) < new_pairs || !is_possible(case_of(choice))) continue;
        note(choice);
        cover.push_back(case_of(choice));
      }
    }
    return cover;
  }

 private:
  static Case case_of(const Choice& choice) {
    static const std::vector<std::string> schedules = schedule_kinds();
    static const char* const recomputations[] = {"none", "selective", "full"};
    return {.dp = 1 << choice[0],
            .pp = 1 << choice[1],
            .schedule = schedules[size_t(choice[2])],
            .zero = choice[3],
            .recompute = recomputations[choice[4]],
            .family = choice[5] == 0 ? "gpt2" : "llama",
            .compute = choice[6] == 0 ? "fp32" : "bf16",
            .tp = 1 << choice[7],
            .cp = 1 << choice[8]};
  }

  static std::vector<Choice> all() {
    const Choice sizes = {3, 3, int(schedule_kinds().size()), 4, 3, 2, 2, 2, 2};
    std::vector<Choice> result;
    for (Choice choice{}; true;) {
      const Case c = case_of(choice);
      const int ranks = c.dp * c.pp * c.tp * c.cp;
      const bool is_meant = (ranks == 2 || ranks == 4) && (c.zero == 0 || c.dp > 1) &&
                            (c.pp > 1 || c.schedule == "1f1b");
      if (is_meant) result.push_back(choice);
      size_t factor = 0;
      while (factor < choice.size() && ++choice[factor] == sizes[factor]) choice[factor++] = 0;
      if (factor == choice.size()) return result;
    }
  }

  static int key(const Choice& choice, size_t a, size_t b) {
    return ((int(a) * 9 + int(b)) * 16 + choice[a]) * 16 + choice[b];
  }
  int count_new(const Choice& choice) const {
    int count = 0;
    for (size_t a = 0; a < choice.size(); ++a) {
      for (size_t b = a + 1; b < choice.size(); ++b) count += !covered_.contains(key(choice, a, b));
    }
    return count;
  }
  void note(const Choice& choice) {
    for (size_t a = 0; a < choice.size(); ++a) {
      for (size_t b = a + 1; b < choice.size(); ++b) covered_.insert(key(choice, a, b));
    }
  }

  std::set<int> covered_;
};

TEST(ParityPairwise, CoversEveryPairOfValues) {
  const std::vector<Case> cover = PairwiseCover().run();
  EXPECT_GE(cover.size(), 30u);
  for (const Case& c : cover) expect_the_bits_of_one_rank(c);
}

TEST(Parity, InFixedModeARunRepeatsItself) {
  for (const int zero : {0, 2, 3}) {
    RunConfig config = config_of({.dp = 2, .pp = 2, .schedule = "interleaved", .zero = zero});
    config.run.reproducible = "fixed";
    const Result<RunPlan> plan = make_plan(config, {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const LayoutRun first = run_layout(*plan);
    EXPECT_EQ(difference(run_layout(*plan), first), "") << zero;
    EXPECT_EQ(first.differences, "");
  }
}

TEST(Parity, ACheckpointMovesBetweenLayouts) {
  const Case layouts[] = {
      {},
      {.dp = 4, .zero = 3},
      {.dp = 2, .pp = 2, .schedule = "zb_v", .zero = 1},
      {.pp = 4, .schedule = "1f1b"},
      {.dp = 2, .pp = 2, .schedule = "interleaved", .zero = 2, .compute = "fp32"},
      {.dp = 2, .zero = 1, .tp = 2},
  };
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("trireme-parity-{}", getpid());
  int number = 0;
  for (const Case& from : layouts) {
    const std::string folder = (root / std::to_string(number++)).string();
    run_layout(plan_of(from), {.end = 2, .save_to = folder});
    for (const Case& to : layouts) {
      SCOPED_TRACE(from.name() + " -> " + to.name());
      const LayoutRun rest =
          run_layout(plan_of(to), {.first = 2, .end = 5, .load_from = folder + "/step-000002"});
      const LayoutRun& whole = reference_of(to);
      if (from.tp != to.tp) {  // continues from other bits
        EXPECT_NEAR(rest.losses.back(), whole.losses.back(), 2e-5 * whole.losses.back());
        continue;
      }
      EXPECT_EQ(rest.losses, std::vector(whole.losses.begin() + 2, whole.losses.end()));
      EXPECT_EQ(rest.weights, whole.weights);
    }
  }
  std::filesystem::remove_all(root);
}

// Damages one action of one rank's program and says how, or "" where it cannot be damaged so.
std::string damage(RunPlan& plan, int rank, size_t position) {
  Program& program = plan.ranks[size_t(rank)].program;
  Action& action = program[position];
  const std::string what = fmt::format("rank {}: {}", rank, to_string(action, 2));
  switch (action.kind) {
    case ActionKind::ReduceGrad:
    case ActionKind::SumGrad:
      program.erase(program.begin() + int64_t(position));
      return what + " is missing";
    case ActionKind::Unshard:
      if (plan.config.parallel.zero >= 3)
        return "";  // nothing is planned for a unit that is absent
      program.erase(program.begin() + int64_t(position));
      return what + " is missing";
    case ActionKind::BW:
      action.accumulate = !action.accumulate;
      return what + " adds instead of overwriting, or the reverse";
    default:
      return "";
  }
}

TEST(Parity, EveryDamageToAProgramIsNoticed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a damaged program uses dead memory, for which a sanitizer ends the process";
#endif
  const Case layouts[] = {{.dp = 2}, {.dp = 2, .zero = 1}, {.dp = 2, .pp = 2, .zero = 2}};
  int noticed = 0;
  for (const Case& c : layouts) {
    Case quick = c;
    const RunPlan intact = plan_of(quick);
    const size_t length = intact.ranks[0].program.size();
    for (size_t position = 0; position < length; position += 3) {
      RunPlan plan = intact;
      plan.config.run.comm_timeout_s = 0.5;
      // The same on all data-parallel ranks: what only one leaves out ends as a mismatch or a hang.
      std::string what;
      for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
        if (plan.ranks[rank].coords.pp == 0) what = damage(plan, int(rank), position);
      }
      if (what.empty()) continue;
      SCOPED_TRACE(quick.name() + ": " + what);
      std::string noticed_as;
      try {
        for (RankPlan& rank : plan.ranks) plan_rank_memory(rank, plan);
        const LayoutRun run = run_layout(plan, {.end = 2});
        LayoutRun whole = reference_of(quick);
        whole.losses.resize(2);
        whole.grad_norms.resize(2);
        noticed_as = run.losses != whole.losses || run.grad_norms != whole.grad_norms
                         ? "other numbers"
                     : difference(run, whole).substr(0, 8) == "gradient" ? "gradients"
                                                                         : "";
      } catch (const std::exception& error) {
        noticed_as = error.what();
      }
      EXPECT_NE(noticed_as, "");
      ++noticed;
    }
  }
  EXPECT_GT(noticed, 10);
}

}  // namespace
}  // namespace trireme
