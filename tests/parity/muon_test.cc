// Muon updates whole matrices, and gives the same bits on every layout.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "data/synthetic_source.h"
#include "layout_case.h"
#include "layout_laws.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

// Every step reads the same samples.
class SameBatch : public TokenSource {
 public:
  explicit SameBatch(const RunPlan& plan)
      : samples_(3, plan.model.vocab_size), count_(uint64_t(plan.global_sequences)) {}
  int64_t vocab_size() const override { return samples_.vocab_size(); }
  void read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override {
    samples_.read_sample(global_sample % count_, inputs, targets);
  }

 private:
  SyntheticSource samples_;
  uint64_t count_;
};

std::vector<Case> muon_layouts() {
  using enum ScheduleKind;
  return {{.dp = 2},
          {.dp = 8, .zero = 3},
          {.dp = 4, .zero = 2, .hsdp_shard = 2},
          {.dp = 2, .zero = 1, .bucket_bytes = 6000},
          {.dp = 2, .pp = 4, .schedule = Dualpipe, .zero = 1},
          {.dp = 2, .pp = 2, .schedule = Interleaved, .zero = 3},
          {.dp = 2, .servers = 1},
          {.dp = 2, .zero = 3, .cp = 2},
          {.dp = 2, .zero = 2, .tp = 2},
          {.dp = 2, .zero = 2, .family = "moe", .ep = 2},
          {.dp = 2, .zero = 1, .family = "moe", .tp = 2},
          {.dp = 2, .zero = 3, .family = "llama", .tp = 2}};
}

TEST(ParityOfMuon, EveryLayoutLeavesTheBitsOfOneRank) {
  for (Case c : muon_layouts()) {
    c.muon = true;
    expect_the_bits_of_one_rank(c);
    c.compute = ComputeChoice::Bf16;
    c.kept = Kept::In8;  // without masters, everything in bf16
    expect_the_bits_of_one_rank(c);
  }
}

// In slices, tp ranks, which gather the momentum, give the bits of one rank.
TEST(ParityOfMuon, TensorParallelRanksInSlicesLeaveTheBitsOfOneRank) {
  for (Case c : {Case{.tp = 2}, Case{.dp = 2, .zero = 3, .tp = 2}, Case{.pp = 2, .tp = 2},
                 Case{.family = "gpt2", .tp = 4, .is_wide = true},
                 Case{.dp = 2, .zero = 2, .family = "llama", .tp = 4, .is_wide = true}}) {
    c.muon = true;
    c.in_slices = true;
    expect_the_bits_of_one_rank(c);
  }
}

// Without slices, tp ranks sum in another order inside layers, so numbers are equal only within
// rounding. In one case two ranks hold the same kv head, which only the first of them sends.
TEST(ParityOfMuon, TensorParallelRanksAreNearOneRank) {
  for (const Case& c : {Case{.family = "llama", .tp = 2}, Case{.family = "moe", .tp = 2},
                        Case{.family = "llama", .tp = 8, .is_wide = true}}) {
    Case one = c, split = c;
    one.tp = 1;
    one.muon = split.muon = true;
    SCOPED_TRACE(c.name());
    expect_near(run_case(split), run_case(one));
  }
}

// The largest logit of a head is the same on every layout, and so are the scaled weights.
TEST(ParityOfQkClip, EveryLayoutLeavesTheBitsOfOneRank) {
  for (Case c : muon_layouts()) {
    c.muon = true;
    c.qk_clip = 0.02;
    expect_the_bits_of_one_rank(c);
    c.compute = ComputeChoice::Bf16;
    c.kept = Kept::In8;
    expect_the_bits_of_one_rank(c);
  }
  using enum Recompute;
  for (Case c :
       {Case{.recompute = Full}, Case{.dp = 2, .zero = 3, .recompute = Selective},
        Case{.pp = 2, .schedule = ScheduleKind::ZbH1}, Case{.dp = 2, .document_mask = true},
        Case{.family = "gpt2", .tp = 4, .in_slices = true, .is_wide = true},
        Case{.dp = 2, .zero = 2, .family = "llama", .tp = 4, .in_slices = true, .is_wide = true},
        Case{.dp = 2, .zero = 3, .family = "llama_latent"},
        Case{.dp = 2, .pp = 2, .zero = 1, .family = "moe_latent"}}) {
    c.muon = true;
    c.qk_clip = 0.02;
    expect_the_bits_of_one_rank(c);
  }
}

// Ranks of cp see parts of the keys of a query, or some heads; together they report the largest
// logit of all. Eight ranks of tp hold kv heads twice.
TEST(ParityOfQkClip, RanksThatShareLayersAreNearOneRank) {
  using enum ContextExchange;
  for (const Case& c :
       {Case{.family = "llama", .tp = 2}, Case{.family = "llama", .tp = 8, .is_wide = true},
        Case{.cp = 2}, Case{.cp = 2, .context = AllToAll},
        Case{.dp = 2, .zero = 3, .cp = 4, .context = AllToAll, .is_wide = true},
        Case{.family = "llama", .tp = 2, .cp = 4, .is_wide = true},
        Case{.family = "llama_latent", .tp = 4, .sequence = true, .is_wide = true},
        Case{.family = "moe_latent", .tp = 4, .is_wide = true}}) {
    Case one = c, split = c;
    one.tp = one.cp = one.dp = 1;
    one.zero = 0;
    one.sequence = false;
    one.muon = split.muon = true;
    one.qk_clip = split.qk_clip = 0.02;
    SCOPED_TRACE(c.name());
    const LayoutRun got = run_case(split), want = run_case(one);
    expect_near(got, want);
    ASSERT_EQ(got.largest_logits.size(), want.largest_logits.size());
    const size_t of_step = want.largest_logits.size() / want.losses.size();
    for (size_t i = 0; i < of_step; ++i) {  // later steps differ by the rounding of Muon, too
      EXPECT_NEAR(got.largest_logits[i], want.largest_logits[i],
                  2e-6 * std::max(1.0f, std::abs(want.largest_logits[i])))
          << i;
    }
  }
}

// With a learning rate of 0, the heads of the first layer, whose input stays the same, have logits
// that are scaled to the limit. Heads below the limit keep theirs.
TEST(ParityOfQkClip, TheLargestLogitOfTheNextStepIsTheLimit) {
  for (const char* family : {"gpt2", "llama", "llama_latent", "moe_latent"}) {
    Case c{.family = family, .is_wide = true};
    c.muon = true;
    c.qk_clip = 1e9;
    const RunPlan unclipped = plan_of(c);
    const SameBatch source(unclipped);
    const auto logits_of = [&](const RunPlan& plan) {  // of the first layer, in two steps
      const LayoutRun run = run_layout(plan, {.end = 2, .source = &source, .lr = 0.0});
      const auto heads = plan.model.heads, of_step = heads * plan.model.layers;
      const auto first = run.largest_logits.begin();
      return std::pair(std::vector(first, first + heads),
                       std::vector(first + of_step, first + of_step + heads));
    };
    const auto [before, still] = logits_of(unclipped);
    EXPECT_EQ(before, still);
    std::vector<float> sorted = before;
    std::sort(sorted.begin(), sorted.end());
    c.qk_clip = sorted[sorted.size() / 2];  // half of the heads are above or at it
    const auto [again, clipped] = logits_of(plan_of(c));
    EXPECT_EQ(again, before);
    for (size_t head = 0; head < before.size(); ++head) {
      const float want = std::min(before[head], float(c.qk_clip));
      EXPECT_NEAR(clipped[head], want, 1e-5 * want) << family << " head " << head;
    }
  }
}

TEST(ParityOfQkClip, IsRefusedWhereItCannotScaleBothSides) {
  Case c;
  c.qk_clip = 100.0;
  EXPECT_FALSE(is_possible(c)) << "without Muon";
  c.muon = true;
  EXPECT_TRUE(is_possible(c));
  c.frozen = "layers.0.attn.wq";
  EXPECT_FALSE(is_possible(c)) << "with frozen parameters";
  c.frozen = "";
  c.lora_rank = 2;
  EXPECT_FALSE(is_possible(c)) << "with adapters";
}

TEST(ParityOfMuon, ACheckpointMovesBetweenLayouts) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("trireme-muon-{}", getpid());
  const Case layouts[] = {{.in_slices = true, .muon = true},
                          {.dp = 4, .zero = 3, .in_slices = true, .muon = true},
                          {.dp = 2, .pp = 2, .zero = 1, .tp = 2, .in_slices = true, .muon = true}};
  for (const Case& from : layouts) {
    const std::string folder = (root / "checkpoints").string();
    run_layout(plan_of(from), {.end = 2, .save_to = folder});
    for (const Case& to : layouts) {
      SCOPED_TRACE(from.name() + " -> " + to.name());
      const LayoutRun rest =
          run_layout(plan_of(to), {.first = 2, .end = 5, .load_from = folder + "/step-000002"});
      const LayoutRun& whole = reference_of(to);
      EXPECT_EQ(rest.losses, std::vector(whole.losses.begin() + 2, whole.losses.end()));
      EXPECT_EQ(rest.weights, whole.weights);
    }
    std::filesystem::remove_all(folder);
  }
  std::filesystem::remove_all(root);
}

// Settings that keep state in pieces, or update at another time, are refused with a remedy.
TEST(ParityOfMuon, WhatItCannotDoIsRefusedWithARemedy) {
  for (Case c : {Case{.offload = OffloadChoice::Optimizer}, Case{.post_validate = true}}) {
    c.muon = true;
    const Result<RunPlan> plan = make_plan(config_of(c), {});
    ASSERT_FALSE(plan.ok()) << c.name();
    EXPECT_NE(plan.error().message.find("optim.name"), std::string::npos);
    EXPECT_NE(plan.error().message.find("\"adamw\""), std::string::npos) << plan.error().message;
  }
}

}  // namespace
}  // namespace trireme
