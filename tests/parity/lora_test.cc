// Adapters (LoRA) are trained alike on every layout, and nothing beside them moves or has memory
// for training.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "layout_case.h"
#include "layout_laws.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

Case adapted(Case c) {
  c.lora_rank = 2;
  return c;
}

bool is_adapter(const std::string& name) {
  return name.ends_with(".lora_a") || name.ends_with(".lora_b");
}

TEST(ParityOfLora, EveryLayoutLeavesTheBitsOfOneRank) {
  for (const Case& c : {
           Case{.dp = 4, .zero = 3},
           Case{.dp = 2, .zero = 3, .recompute = Recompute::Full, .compute = ComputeChoice::Bf16},
           Case{.dp = 2, .pp = 4, .schedule = ScheduleKind::ZbH1, .zero = 1},
           Case{.dp = 2, .pp = 2, .schedule = ScheduleKind::Dualpipe, .zero = 2, .family = "llama"},
           Case{.dp = 4, .zero = 2, .family = "llama", .bucket_bytes = 4096},
           Case{.dp = 2, .zero = 2, .tp = 2},
           Case{.dp = 2, .zero = 3, .tp = 2, .sequence = true, .cp = 2},
           Case{.dp = 2, .recompute = Recompute::Selective, .dropout = 0.1},
           Case{.dp = 2, .zero = 1, .offload = OffloadChoice::All},
           Case{.dp = 2, .zero = 1, .post_validate = true},
           Case{.dp = 2, .zero = 2, .muon = true},
       }) {
    expect_the_bits_of_one_rank(adapted(c));
  }
}

TEST(ParityOfLora, SomeMatricesOfAModelWithExperts) {
  for (Case c : {Case{.dp = 2, .zero = 2, .family = "moe"}, Case{.dp = 2, .pp = 2, .family = "moe"},
                 Case{.dp = 2, .family = "moe", .ep = 2}}) {
    c.lora_targets = "q,o";
    expect_the_bits_of_one_rank(adapted(c));
  }
}

constexpr const char* kOfLatents = "q_a,q_b,kv_a,kv_b,o";

TEST(ParityOfLora, LatentAttentionLeavesTheBitsOfOneRankToo) {
  for (Case c : {
           Case{.dp = 4, .zero = 3, .family = "llama_latent"},
           Case{
               .dp = 2, .pp = 4, .schedule = ScheduleKind::ZbH1, .zero = 1, .family = "moe_latent"},
           Case{.pp = 2,
           .schedule = ScheduleKind::Dualpipe,
           .recompute = Recompute::Selective,
           .family = "moe_latent",
           .compute = ComputeChoice::Bf16},
           Case{.dp = 2, .zero = 2, .recompute = Recompute::Full, .family = "moe_latent", .tp = 2},
           Case{.dp = 2,
           .zero = 3,
           .family = "llama_latent",
           .dropout = 0.1,
           .tp = 2,
           .sequence = true,
           .cp = 2},
           Case{.dp = 2, .zero = 1, .family = "moe_latent", .ep = 2, .offload = OffloadChoice::All},
       }) {
    c.layers = 4;
    c.sequences = 8;
    if (c.family == "moe_latent") c.lora_targets = kOfLatents;
    expect_the_bits_of_one_rank(adapted(c));
  }
}

// The latents are whole on every rank of tp, and their adapters' gradients, too, unless ranks share
// out the tokens; heads are shared out.
TEST(ParityOfLora, LatentAttentionStaysWithinTheBounds) {
  for (const char* family : {"llama_latent", "moe_latent"}) {
    const std::string targets = family == std::string("moe_latent") ? kOfLatents : "all";
    const auto of_family = [&](Case c) {
      c.family = family;
      c.is_wide = true;
      c.layers = 4;
      c.sequences = 8;
      c.lora_targets = targets;
      return adapted(c);
    };
    const LayoutRun& one = reference_of(of_family({}));
    for (const Case& c :
         {Case{.tp = 4}, Case{.dp = 2, .tp = 2, .sequence = true},
          Case{.tp = 4, .sequence = true, .tp_overlap = true}, Case{.cp = 4},
          Case{.cp = 2, .context = ContextExchange::AllToAll}, Case{.pp = 2, .tp = 2, .cp = 2}}) {
      const LayoutRun run = run_case(of_family(c));
      EXPECT_EQ(run.differences, "") << of_family(c).name();
      EXPECT_EQ(beyond_bounds(run, one), "") << of_family(c).name();
    }
  }
}

// What every rank of tp computes of an adapter's gradient is an addend, so tp changes the order of
// sums.
TEST(ParityOfLora, TensorAndContextParallelismStayWithinTheBounds) {
  for (const char* family : {"gpt2", "llama"}) {
    const LayoutRun& one = reference_of(adapted({.family = family, .is_wide = true}));
    for (const Case& c : {Case{.tp = 4}, Case{.dp = 2, .tp = 2, .sequence = true},
                          Case{.tp = 8, .tp_overlap = true}, Case{.tp = 2, .cp = 2}}) {
      Case split = adapted(c);
      split.family = family;
      split.is_wide = true;
      const LayoutRun run = run_case(split);
      EXPECT_EQ(run.differences, "") << split.name();
      EXPECT_EQ(beyond_bounds(run, one), "") << split.name();
    }
  }
}

TEST(ParityOfLora, TheFirstLossIsThatOfTheBaseAndOnlyAdaptersMove) {
  const Case c = adapted({});
  const LayoutRun base = run_layout(plan_of({}), {.end = 1, .evaluates = false});
  const LayoutRun start = run_layout(plan_of(c), {.end = 0, .evaluates = false});
  const LayoutRun run = run_case(c);
  EXPECT_EQ(run.losses.front(), base.losses.front());
  int64_t moved = 0;
  for (const auto& [name, values] : run.weights) {
    const bool is_same = values == start.weights.at(name);
    EXPECT_TRUE(is_same || is_adapter(name)) << name;
    EXPECT_EQ(run.first_moments.count(name), is_adapter(name) ? 1u : 0u) << name;
    moved += is_same ? 0 : 1;
  }
  // Two of each of the six matrices of eight layers.
  EXPECT_EQ(moved, 2 * 6 * 8);
}

// A folder that is removed with the object.
class CheckpointFolder {
 public:
  CheckpointFolder()
      : path_(std::filesystem::temp_directory_path() / fmt::format("lora.{}", getpid())) {}
  ~CheckpointFolder() { std::filesystem::remove_all(path_); }
  std::string checkpoints() const { return (path_ / "checkpoints").string(); }
  std::string step(int number) const { return fmt::format("{}/step-{:06}", checkpoints(), number); }

 private:
  std::filesystem::path path_;
};

TEST(ParityOfLora, WhatOneLayoutSavesAnotherGoesOnWith) {
  const CheckpointFolder folder;
  const Case one = adapted({}), other = adapted({.dp = 2, .pp = 2, .zero = 3});
  run_layout(plan_of(one), {.end = 2, .save_to = folder.checkpoints(), .evaluates = false});
  const LayoutRun resumed =
      run_layout(plan_of(other), {.first = 2, .end = 5, .load_from = folder.step(2)});
  EXPECT_EQ(resumed.weights, reference_of(one).weights);
}

// A checkpoint of a base model, trained already, whose optimizer's state nobody needs.
TEST(ParityOfLora, AdaptersThatACheckpointLacksBeginWithTheirInitialValues) {
  const CheckpointFolder folder;
  const LayoutRun base =
      run_layout(plan_of({}), {.end = 2, .save_to = folder.checkpoints(), .evaluates = false});
  const Case c = adapted({.dp = 2, .zero = 3});
  const LayoutRun fresh = run_layout(plan_of(c), {.end = 0, .evaluates = false});
  const LayoutRun begun =
      run_layout(plan_of(c), {.end = 0, .load_from = folder.step(2), .evaluates = false});
  for (const auto& [name, values] : begun.weights) {
    const LayoutRun& from = is_adapter(name) ? fresh : base;
    EXPECT_EQ(values, from.weights.at(name)) << name;
  }
}

// r (in + out) numbers for each matrix, and gradients and optimizer state of no others.
TEST(ParityOfLora, MemoryIsThatOfTheAdapters) {
  const Case c = adapted({});
  const RunPlan plan = plan_of(c);
  const int64_t C = 8, F = 32, r = 2, layers = 8;
  const int64_t numbers = layers * r * (4 * (C + C) + (C + F) + (F + C));
  int64_t grads = 0, optimizer = 0;
  for (const ChunkTables& chunk : plan.pipeline.front().chunks) {
    for (const TensorSpec& tensor : chunk.tables.grads.tensors()) {
      EXPECT_TRUE(is_adapter(tensor.name)) << tensor.name;
      grads += tensor.shape.num_elements();
    }
    for (const TensorSpec& tensor : chunk.tables.optimizer.tensors()) {
      EXPECT_TRUE(is_adapter(tensor.name)) << tensor.name;
      optimizer += tensor.shape.num_elements();
    }
  }
  EXPECT_EQ(grads, numbers);
  EXPECT_EQ(optimizer, 2 * numbers);  // two moments; the parameters are fp32 themselves
}

// Frozen weights are neither reduced nor, where every rank stores them, gathered.
TEST(ParityOfLora, DataParallelRanksSendAdaptersAlone) {
  for (const int zero : {0, 1, 2}) {
    const Case free{.dp = 2, .zero = zero}, few = adapted(free);
    const RunSteps steps{.end = 2, .evaluates = false};
    const LayoutRun all = run_layout(plan_of(free), steps), run = run_layout(plan_of(few), steps);
    EXPECT_EQ(run.differences, "");
    EXPECT_GT(run.sent_bytes.at("dp"), 0);
    EXPECT_LT(run.sent_bytes.at("dp"), all.sent_bytes.at("dp") * 3 / 5) << zero;
  }
}

TEST(ParityOfLora, WhatCannotBeAdaptedIsRefused) {
  const auto refusal = [](const Case& c) {
    const Result<RunPlan> plan = make_plan(config_of(c), {});
    return plan.ok() ? std::string() : plan.error().message;
  };
  const auto says = [&](const Case& c, const char* words) {
    EXPECT_NE(refusal(c).find(words), std::string::npos) << refusal(c);
  };
  says({.lora_rank = 9}, "the smaller side of the matrix");
  says({.lora_rank = 2, .lora_targets = "q,w"}, "is no matrix of a layer");
  says({.lora_rank = 2, .lora_targets = ""}, "is no matrix of a layer");
  says({.lora_rank = 2, .lora_targets = "gate"}, "which only an MLP with SwiGLU has");
  says({.family = "moe", .lora_rank = 2}, "matrices of experts");
  says({.family = "moe_latent", .lora_rank = 2}, "try \"q_a,q_b,kv_a,kv_b,o\"");
  says({.family = "llama_latent", .lora_rank = 2, .lora_targets = "v"},
       "attention are q,kv_a,kv_b,o");
  says({.lora_rank = 2, .lora_targets = "kv_b"}, "attention are q,k,v,o");
  says({.in_slices = true, .lora_rank = 2}, "take \"layout\"");
  says({.frozen = "*.lora_*", .lora_rank = 2}, "leaves no parameter to train");
}

}  // namespace
}  // namespace trireme
