// The modules of multi-token prediction are trained alike on every layout. The table of the
// embedding has a use in each of them, beside those of embedding and tied head.

#include <gtest/gtest.h>

#include "data/synthetic_source.h"
#include "layout_case.h"
#include "layout_laws.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

Case small(Case c) {
  c.layers = 4;
  c.sequences = 8;
  return c;
}

TEST(ParityOfModulesAhead, EveryLayoutLeavesTheBitsOfOneRank) {
  using enum ScheduleKind;
  for (const Case& c : {
           Case{.dp = 4, .zero = 3, .family = "llama_mtp"},
           Case{.dp = 2, .zero = 3, .family = "gpt2_mtp", .dropout = 0.1},
           Case{.pp = 4, .zero = 0, .family = "llama_mtp"},
           Case{.dp = 2, .pp = 2, .schedule = ZbH1, .zero = 1, .family = "gpt2_mtp"},
           Case{.pp = 2, .schedule = ZbV, .family = "llama_mtp"},
           Case{.dp = 2, .pp = 2, .schedule = Dualpipe, .zero = 2, .family = "moe_mtp"},
           Case{.pp = 2, .schedule = Interleaved, .family = "gpt2_mtp"},
           Case{.dp = 2,
           .zero = 2,
           .recompute = Recompute::Full,
           .family = "llama_mtp",
           .compute = ComputeChoice::Bf16},
           Case{.dp = 2, .zero = 2, .family = "moe_mtp", .offload = OffloadChoice::All},
           Case{.dp = 2, .zero = 2, .family = "llama_mtp", .muon = true},
           Case{.dp = 2, .pp = 2, .zero = 1, .family = "llama_mtp", .muon = true, .qk_clip = 0.02},
           Case{.pp = 2, .family = "moe_mtp", .tp = 2, .muon = true, .qk_clip = 0.02},
           Case{.dp = 2, .pp = 2, .zero = 3, .family = "llama_mtp", .tp = 2, .sequence = true},
           Case{.pp = 2, .schedule = ZbH1, .family = "gpt2_mtp", .tp = 2, .sequence = true},
           Case{.dp = 2, .zero = 3, .family = "llama_mtp", .cp = 2},
           Case{.pp = 2, .family = "gpt2_mtp", .tp = 2, .in_slices = true},
           Case{.dp = 2, .family = "llama_mtp", .post_validate = true},
           Case{.dp = 2, .family = "llama_mtp", .document_mask = true},
       }) {
    expect_the_bits_of_one_rank(small(c));
  }
}

// The last stage has the head and the modules alone. Its input is what another stage sends.
TEST(ParityOfModulesAhead, AStageOfTheirOwnLeavesTheBitsOfOneRank) {
  using enum ScheduleKind;
  for (Case c : {
           Case{.pp = 2, .family = "llama_mtp", .stage_layers = "4,0"},
           Case{.dp = 2, .pp = 2, .zero = 1, .family = "gpt2_mtp", .stage_layers = "4,0"},
           Case{.pp = 5, .family = "gpt2_mtp", .dropout = 0.1, .stage_layers = "1,1,1,1,0"},
           Case{.pp = 2, .schedule = ZbH1, .family = "llama_mtp", .stage_layers = "4,0"},
           Case{.pp = 2, .schedule = ZbV, .family = "gpt2_mtp", .stage_layers = "2,1,1,0"},
           Case{.pp = 2, .schedule = Interleaved, .family = "moe_mtp", .stage_layers = "1,1,2,0"},
           Case{.dp = 2,
           .pp = 2,
           .schedule = Dualpipe,
           .zero = 2,
           .family = "moe_mtp",
           .stage_layers = "4,0"},
           Case{.dp = 2,
           .pp = 2,
           .zero = 3,
           .recompute = Recompute::Full,
           .family = "llama_mtp",
           .compute = ComputeChoice::Bf16,
           .stage_layers = "4,0"},
           Case{.dp = 2,
           .pp = 2,
           .zero = 2,
           .family = "gpt2_mtp",
           .offload = OffloadChoice::All,
           .stage_layers = "4,0"},
           Case{.dp = 2, .pp = 2, .family = "llama_mtp", .muon = true, .stage_layers = "4,0"},
           Case{.pp = 2, .recompute = Recompute::Fit, .family = "llama_mtp", .stage_layers = "4,0"},
           Case{.pp = 2,
           .zero = 0,
           .family = "llama_mtp",
           .tp = 2,
           .sequence = true,
           .stage_layers = "4,0"},
           Case{.pp = 2, .family = "gpt2_mtp", .tp = 2, .in_slices = true, .stage_layers = "4,0"},
           Case{.pp = 2, .family = "llama_mtp", .cp = 2, .stage_layers = "4,0"},
           Case{.dp = 2,
           .pp = 3,
           .zero = 1,
           .family = "llama_mtp",
           .order = "tp,cp,dp,pp",
           .stage_dp = "2,1,1",
           .stage_layers = "2,2,0"},
           Case{.pp = 2, .family = "llama", .stage_layers = "4,0"},
           Case{.pp = 2, .schedule = ZbH1, .family = "gpt2", .stage_layers = "4,0"},
       }) {
    c = small(c);
    EXPECT_EQ(plan_of(c).stages.back().num_layers, 0) << c.name();
    expect_the_bits_of_one_rank(c);
  }
}

// The cut gives them that stage where it costs as much as the others, and prices it as it is.
TEST(ParityOfModulesAhead, TheCutBalancesThemAgainstLayers) {
  const auto layers_of_last = [](const char* family, int64_t vocab_size) {
    RunConfig config = config_of(small({.pp = 2, .family = family}));
    config.model.vocab_size = vocab_size;
    return make_plan(config, {}).value().stages.back().num_layers;
  };
  EXPECT_EQ(layers_of_last("llama_mtp", 2000), 0);
  EXPECT_GT(layers_of_last("llama_mtp", 3), 0);
  EXPECT_EQ(layers_of_last("llama", 2000), 1);
}

TEST(ParityOfModulesAhead, TensorContextAndExpertParallelismStayWithinTheBounds) {
  for (Case c :
       {Case{.family = "llama_mtp", .tp = 4},
        Case{.family = "gpt2_mtp", .tp = 2, .sequence = true, .tp_overlap = true},
        Case{.family = "llama_mtp", .cp = 4},
        Case{.pp = 2, .family = "gpt2_mtp", .tp = 2, .cp = 2, .context = ContextExchange::AllToAll},
        Case{.dp = 2, .zero = 1, .family = "moe_mtp", .ep = 2},
        Case{.dp = 2, .family = "moe_mtp", .tp = 2, .sequence = true, .cp = 2, .ep = 4}}) {
    c = small(c);
    c.is_wide = true;
    const Case one = small({.family = c.family, .is_wide = true});
    const LayoutRun run = run_case(c);
    EXPECT_EQ(run.differences, "") << c.name();
    EXPECT_EQ(beyond_bounds(run, reference_of(one)), "") << c.name();
  }
}

// Without a weight the modules change nothing of the model, and their own gradients are 0.
TEST(ParityOfModulesAhead, AModuleWithoutWeightLeavesTheModelAsItIs) {
  const auto run = [](double weight, int64_t depth) {
    RunConfig config = config_of(small({.family = "llama_mtp"}));
    config.model.mtp_depth = depth;
    config.model.mtp_loss_weight = weight;
    config.optim.clip_norm = 0.0;
    return run_layout(make_plan(config, {}).value(), {.end = 2});
  };
  const LayoutRun without = run(0.3, 0), still = run(0.0, 2), trained = run(0.3, 2);
  for (const auto& [name, weights] : without.weights) {
    EXPECT_EQ(weights, still.weights.at(name)) << name;
  }
  EXPECT_EQ(without.losses, still.losses);
  EXPECT_EQ(without.val_loss, still.val_loss);
  EXPECT_NE(without.val_loss, trained.val_loss);
  EXPECT_EQ(without.losses.front(), trained.losses.front());
  EXPECT_EQ(without.ahead_losses.front(), 0.0);
  EXPECT_EQ(still.ahead_losses.front(), trained.ahead_losses.front());
  EXPECT_GT(trained.ahead_losses.front(), 0.0);
}

// Reads and predicts what lies `shift` tokens behind in a sequence of its own.
class Repeated : public TokenSource {
 public:
  explicit Repeated(int64_t vocab_size) : vocab_size_(vocab_size) {}
  int64_t vocab_size() const override { return vocab_size_; }
  void read_sample(uint64_t sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override {
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = int32_t((sample * 7 + i) % uint64_t(vocab_size_));
      targets[i] = int32_t((sample * 7 + i + 1) % uint64_t(vocab_size_));
    }
  }

 private:
  int64_t vocab_size_;
};

// Where a token follows from the one before, modules learn it as the model does.
TEST(ParityOfModulesAhead, ModulesLearnWhatFollows) {
  RunConfig config = config_of(small({.family = "llama_mtp", .is_wide = true}));
  config.model.mtp_loss_weight = 1.0;
  const Repeated source(config.model.vocab_size);
  const LayoutRun run = run_layout(make_plan(config, {}).value(),
                                   {.end = 40, .source = &source, .lr = 3e-2, .evaluates = false});
  EXPECT_LT(run.losses.back(), 0.2 * run.losses.front());
  EXPECT_LT(run.ahead_losses.back(), 0.3 * run.ahead_losses.front());
}

TEST(ParityOfModulesAhead, WhatCannotHaveModulesIsRefused) {
  const auto refusal = [](const Case& c, int64_t depth) {
    RunConfig config = config_of(c);
    config.model.mtp_depth = depth;
    const Result<RunPlan> plan = make_plan(config, {});
    return plan.ok() ? std::string() : plan.error().message;
  };
  const auto says = [&](const Case& c, int64_t depth, const char* words) {
    EXPECT_NE(refusal(c, depth).find(words), std::string::npos) << refusal(c, depth);
  };
  says({.family = "llama"}, 4, "further ahead than a sequence is long");
  says({.lora_rank = 2}, 1, "adapters");
  EXPECT_EQ(refusal({.family = "llama"}, 3), "");
}

}  // namespace
}  // namespace trireme
