// Frozen parameters keep their initial bits. The others get the same bits on every layout.

#include <gtest/gtest.h>

#include "graph/param_table.h"
#include "hybrid_net.h"
#include "layout_case.h"
#include "layout_laws.h"
#include "planner/make_plan.h"
#include "schema/param_patterns.h"

namespace trireme {
namespace {

constexpr const char* kFrozen = "embedding.*, layers.0.*, layers.*.attn.wq";

TEST(ParityOfFrozen, EveryLayoutLeavesTheBitsOfOneRank) {
  for (Case c : {Case{.dp = 4, .zero = 3}, Case{.dp = 2, .pp = 4, .zero = 1},
                 Case{.dp = 2, .zero = 2, .tp = 2}, Case{.dp = 2, .offload = OffloadChoice::All},
                 Case{.dp = 2, .zero = 2, .muon = true},
                 Case{.dp = 2, .zero = 3, .compute = ComputeChoice::Bf16},
                 Case{.pp = 2, .schedule = ScheduleKind::ZbH1, .zero = 0},
                 Case{.dp = 2, .pp = 2, .schedule = ScheduleKind::Dualpipe, .zero = 2}}) {
    c.frozen = kFrozen;
    expect_the_bits_of_one_rank(c);
  }
}

// Some of the parameters that one op reads, one product makes, or one kernel sums.
struct Part {
  const char* family;
  const char* frozen;
};
constexpr Part kParts[] = {
    {"gpt2", "embedding.tokens"},
    {"gpt2", "embedding.positions"},
    {"gpt2", "*.wk, *.bq, *norm2.gain"},
    {"gpt2", "*.w*"},
    {"gpt2", "*.b*, *.gain"},
    {"gpt2", "layers.*, final_norm.*"},
    {"llama", "*.wq, *.w_up, head.weight"},
    {"llama_scaled", "*scale.gain"},
    {"moe", "layers.1.*, *.experts.1.*, *.experts.3.w_gate, *.experts.2.w_up"},
    {"moe", "*.router, *.w_down"},
    {"moe", "*.router_bias, *.shared.*"},
    {"llama_mtp", "mtp.0.*, layers.*.attn.wo"},
};

// The backward pass makes no gradient of what is frozen, and the bits of all others stay.
TEST(ParityOfFrozen, TheOtherGradientsAreThoseOfTheWholeModel) {
  for (const Part& part : kParts) {
    SCOPED_TRACE(std::string(part.family) + " " + part.frozen);
    const Case free{.family = part.family, .clip_norm = 0.0};
    Case frozen = free;
    frozen.frozen = part.frozen;
    const RunSteps one_step{.end = 1, .evaluates = false};
    const LayoutRun whole = run_layout(plan_of(free), one_step);
    const LayoutRun some = run_layout(plan_of(frozen), one_step);
    EXPECT_EQ(some.differences, "");
    EXPECT_EQ(some.losses, whole.losses);
    size_t num_trained = 0;
    for (const auto& [name, gradient] : whole.first_moments) {
      const bool is_frozen = matches_any(part.frozen, name);
      EXPECT_EQ(some.first_moments.count(name), is_frozen ? 0u : 1u) << name;
      if (is_frozen) continue;
      ++num_trained;
      EXPECT_EQ(some.first_moments.at(name), gradient) << name;
    }
    EXPECT_EQ(some.first_moments.size(), num_trained);
    frozen.dp = 2;
    frozen.zero = 3;
    expect_the_bits_of_one_rank(frozen);
  }
}

TEST(ParityOfFrozen, TensorParallelRanksStayWithinTheBounds) {
  for (const char* frozen : {"*.w*", "*.b*, *.gain", "*.wk, embedding.*"}) {
    Case one{.is_wide = true, .frozen = frozen};
    const LayoutRun& whole = reference_of(one);
    for (Case split :
         {Case{.tp = 4, .is_wide = true}, Case{.tp = 2, .sequence = true, .is_wide = true}}) {
      split.frozen = frozen;
      const LayoutRun run = run_case(split);
      EXPECT_EQ(run.differences, "") << split.name();
      EXPECT_EQ(beyond_bounds(run, whole), "") << split.name();
    }
  }
}

// Gradients and optimizer state have the numbers of the trained parameters; what is frozen has its
// compute dtype alone.
TEST(ParityOfFrozen, MemoryIsThatOfTheOthers) {
  for (const Part& part : kParts) {
    SCOPED_TRACE(std::string(part.family) + " " + part.frozen);
    const RunPlan plan =
        plan_of({.family = part.family, .compute = ComputeChoice::Bf16, .frozen = part.frozen});
    int64_t trained = 0, grads = 0, optimizer = 0;
    for (const ParamSpec& param : param_table(plan.model, whole_model(plan.model))) {
      EXPECT_EQ(param.is_trained, !matches_any(part.frozen, param.name)) << param.name;
      trained += param.is_trained ? param.shape.num_elements() : 0;
    }
    const ChunkTables& chunk = plan.pipeline.front().chunks.front();
    for (const TensorSpec& tensor : chunk.tables.grads.tensors()) {
      if (tensor.name.ends_with("@head")) continue;  // the second use of the table
      grads += tensor.shape.num_elements();
    }
    for (const TensorSpec& tensor : chunk.tables.optimizer.tensors()) {
      optimizer += tensor.shape.num_elements();
    }
    EXPECT_EQ(grads, trained);
    EXPECT_EQ(optimizer, 3 * trained);  // master and two moments
    EXPECT_EQ(num_trained_params(plan.model), trained);
  }
}

TEST(ParityOfFrozen, DataParallelRanksSendTheOtherGradientsAlone) {
  const char* most = "embedding.*, layers.0.*, layers.1.*, layers.2.*, layers.3.*, layers.4.*";
  for (const int zero : {0, 1, 2}) {
    const Case free{.dp = 2, .zero = zero};
    Case few = free;
    few.frozen = most;
    const RunSteps steps{.end = 2, .evaluates = false};
    const LayoutRun all = run_layout(plan_of(free), steps), run = run_layout(plan_of(few), steps);
    EXPECT_EQ(run.differences, "");
    EXPECT_GT(run.sent_bytes.at("dp"), 0);
    EXPECT_LT(run.sent_bytes.at("dp"), all.sent_bytes.at("dp") * 3 / 5) << zero;
  }
}

// A frozen matrix has no dW, so it counts 4 FLOPs per weight and token instead of 6.
TEST(ParityOfFrozen, FlopsAreThoseOfTheGradientsThatAreComputed) {
  const RunPlan free = plan_of({}), frozen = plan_of({.frozen = "layers.*.mlp.*"});
  const double weights = 8.0 * 2.0 * 8.0 * 32.0;  // of the MLPs of eight layers
  EXPECT_DOUBLE_EQ(free.flops_per_token.total() - frozen.flops_per_token.total(), 2.0 * weights);
}

// A net of images: filters, gains, biases and running statistics, each alone.
TEST(ParityOfFrozen, NetsOfImagesLeaveTheBitsOfOneRank) {
  for (const char* patterns :
       {"*conv.w", "*.gain", "*.bias", "*.mean", "*.variance, stem.*", "layers.0.*"}) {
    SCOPED_TRACE(patterns);
    RunConfig config;
    config.model.family = ModelFamily::ConvNet;
    config.model.layers = 2;
    config.model.image_size = 8;
    config.model.image_channels = 3;
    config.model.vocab_size = 5;
    config.model.seq_len = 1;
    config.data.source = DataSource::Synthetic;
    config.batch.global_sequences = 8;
    config.batch.micro_sequences = 2;
    config.optim.clip_norm = 0.0;
    config.run.threads_per_rank = 1;
    config.run.reproducible = Reproducible::Layout;
    const RunSteps one_step{.end = 1, .evaluates = false};
    const LayoutRun whole = run_layout(make_plan(config, {}).value(), one_step);
    config.optim.frozen = patterns;
    const LayoutRun one = run_layout(make_plan(config, {}).value(), one_step);
    for (const auto& [name, gradient] : one.first_moments) {
      EXPECT_EQ(gradient, whole.first_moments.at(name)) << name;
    }
    config.parallel.dp = 2;
    config.parallel.zero = 3;
    const LayoutRun two = run_layout(make_plan(config, {}).value(), one_step);
    EXPECT_EQ(two.differences, "");
    EXPECT_EQ(two.weights, one.weights);
    for (const auto& [name, values] : one.weights) {
      const bool is_frozen = matches_any(patterns, name);
      EXPECT_EQ(one.first_moments.count(name), is_frozen ? 0u : 1u) << name;
      if (is_frozen) continue;
      EXPECT_EQ(values, whole.weights.at(name)) << name;
    }
  }
}

RunPlan plan_with_frozen(const HybridNet& net, const HybridLayout& layout, const char* patterns) {
  RunConfig config = hybrid_config_of(net, layout);
  config.optim.clip_norm = 0.0;
  config.optim.frozen = patterns;
  return make_plan(config, {}).value();
}

// W of the head projects its input again, whichever of its parameters is trained.
TEST(ParityOfFrozen, TheBiasOfTheHeadIsTrainedAlone) {
  for (const ScheduleKind schedule : {ScheduleKind::Gpipe, ScheduleKind::ZbH1}) {
    const HybridLayout layout{.pp = 2, .schedule = schedule};
    const LayoutRun whole = run_of(plan_with_frozen(kResNet, layout, ""), 1);
    const LayoutRun run = run_of(plan_with_frozen(kResNet, layout, "head.weight"), 1);
    EXPECT_EQ(run.first_moments.size() + 1, whole.first_moments.size());
    EXPECT_EQ(run.first_moments.at("head.bias"), whole.first_moments.at("head.bias"))
        << name_of(schedule);
  }
}

// No W runs in a first unit without trained parameters, so no sums of its batch norm are gathered.
TEST(ParityOfFrozen, AFrozenFirstUnitSendsNoSums) {
  const HybridLayout layout{.tp = 2};
  for (const char* patterns : {"stem.*", "stem.conv.w", "head.weight"}) {
    const RunPlan plan = plan_with_frozen(kConvNet, layout, patterns);
    EXPECT_EQ(run_of(plan, 1).differences, "") << patterns;
  }
}

TEST(ParityOfFrozen, TheyKeepTheirBitsAndTheOthersMove) {
  const Case free{}, frozen{.frozen = kFrozen};
  const LayoutRun start = run_layout(plan_of(free), {.end = 0, .evaluates = false});
  const LayoutRun run = run_case(frozen);
  for (const auto& [name, values] : run.weights) {
    const bool is_frozen =
        name.starts_with("embedding.") || name.starts_with("layers.0.") || name.ends_with(".wq");
    EXPECT_EQ(values == start.weights.at(name), is_frozen) << name;
    EXPECT_EQ(run.first_moments.count(name), is_frozen ? 0u : 1u) << name;
  }
}

TEST(ParityOfFrozen, APatternThatMatchesNothingOrEverythingIsRefused) {
  for (const char* patterns : {"layers.*,heads.*", "*"}) {
    const Result<RunPlan> plan = make_plan(config_of({.frozen = patterns}), {});
    ASSERT_FALSE(plan.ok());
    EXPECT_NE(plan.error().message.find("optim.frozen"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme
