// Norms of heads, windows and latent attention are trained alike on every layout.

#include <gtest/gtest.h>

#include <span>

#include "layout_case.h"
#include "layout_laws.h"

namespace trireme {
namespace {

constexpr const char* kVariants[] = {"llama_qk_norm", "llama_window", "llama_latent", "moe_latent"};

// Visits every variant with every other layout, to save time.
template <typename Visit>
void for_every_other(std::span<const Case> layouts, Visit&& visit) {
  for (size_t v = 0; v < std::size(kVariants); ++v) {
    for (size_t i = v % 2; i < layouts.size(); i += 2) {
      Case c = layouts[i];
      c.family = kVariants[v];
      c.layers = 4;
      c.sequences = 8;
      const bool lacks_experts = c.ep > 1 && !c.family.starts_with("moe");
      if (!lacks_experts) visit(c);
    }
  }
}

TEST(ParityOfAttentionVariants, EveryLayoutLeavesTheBitsOfOneRank) {
  const Case layouts[] = {
      {.dp = 4, .zero = 3},
      {.dp = 2, .zero = 3, .recompute = Recompute::Full, .compute = ComputeChoice::Bf16},
      {.dp = 2, .pp = 4, .schedule = ScheduleKind::ZbH1, .zero = 1},
      {.pp = 2, .schedule = ScheduleKind::Dualpipe, .recompute = Recompute::Selective},
      {.dp = 2, .zero = 2, .dropout = 0.1, .offload = OffloadChoice::All},
      {.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbV, .zero = 2, .tp = 2},
      {.dp = 2, .zero = 3, .tp = 2, .sequence = true, .cp = 2},
      {.pp = 2,
       .schedule = ScheduleKind::ZbH1,
       .recompute = Recompute::Full,
       .tp = 2,
       .sequence = true},
  };
  for_every_other(layouts, [](const Case& c) { expect_the_bits_of_one_rank(c); });
}

TEST(ParityOfAttentionVariants, TensorContextAndExpertParallelismStayWithinTheBounds) {
  const Case layouts[] = {
      {.tp = 4},
      {.tp = 2, .sequence = true},
      {.tp = 4, .sequence = true, .tp_overlap = true},
      {.tp = 4, .tp_overlap = true},
      {.cp = 4},
      {.cp = 4, .context = ContextExchange::AllToAll},
      {.tp = 2, .sequence = true, .cp = 2},
      {.pp = 2, .tp = 2, .cp = 2, .context = ContextExchange::AllToAll},
      {.dp = 2, .zero = 1, .ep = 2},
      {.dp = 2, .cp = 2, .ep = 4},
  };
  for_every_other(layouts, [](Case c) {
    c.is_wide = true;
    const Case one{.family = c.family, .is_wide = true, .layers = c.layers, .sequences = 8};
    const LayoutRun run = run_case(c);
    EXPECT_EQ(run.differences, "") << c.name();
    EXPECT_EQ(beyond_bounds(run, reference_of(one)), "") << c.name();
  });
}

// A query sees no key before its window and none of another document.
TEST(ParityOfAttentionVariants, WindowsAndDocumentsTogether) {
  const Case one{.family = "llama_window", .is_wide = true, .document_mask = true};
  for (Case c : {Case{.tp = 2, .sequence = true}, Case{.cp = 4},
                 Case{.cp = 2, .context = ContextExchange::AllToAll}}) {
    c.family = one.family;
    c.is_wide = c.document_mask = true;
    const LayoutRun run = run_case(c);
    EXPECT_EQ(run.differences, "") << c.name();
    EXPECT_EQ(beyond_bounds(run, reference_of(one)), "") << c.name();
  }
  const Case without{.family = "llama", .is_wide = true, .document_mask = true};
  EXPECT_NE(reference_of(one).losses, reference_of(without).losses);
}

// Latents go round the ring in every program of a rank, whatever it stores.
TEST(ParityOfAttentionVariants, ARingOfLatentsLeavesTheBitsOfItsRanks) {
  for (Case c : {
           Case{.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbH1, .zero = 1},
           Case{.dp = 2, .zero = 3, .recompute = Recompute::Full},
           Case{.pp = 2, .recompute = Recompute::Selective, .compute = ComputeChoice::Bf16},
           Case{.dp = 2, .zero = 2, .dropout = 0.1, .tp = 2, .sequence = true},
           Case{.dp = 2, .frozen = "*wk_up*"},
           Case{.dp = 2, .frozen = "*attn*"},
           Case{.dp = 2, .recompute = Recompute::Fit, .room = 0.4},
       }) {
    for (const char* family : {"llama_latent", "moe_latent"}) {
      c.family = family;
      c.cp = 2;
      c.layers = 4;
      c.sequences = 8;
      expect_the_bits_of_one_rank(c);
    }
  }
}

TEST(ParityOfAttentionVariants, ARingOfLatentsIsNearOneRank) {
  for (const Case& change :
       {Case{.pp = 2, .schedule = ScheduleKind::ZbH1}, Case{.dropout = 0.1},
        Case{.recompute = Recompute::Full, .document_mask = true}, Case{.frozen = "*wv_up*"}}) {
    Case one{.family = "llama_latent",
             .dropout = change.dropout,
             .is_wide = true,
             .layers = 4,
             .sequences = 8,
             .frozen = change.frozen,
             .document_mask = change.document_mask};
    Case c = one;
    c.cp = 4;
    c.pp = change.pp;
    c.schedule = change.schedule;
    c.recompute = change.recompute;
    const LayoutRun run = run_case(c);
    EXPECT_EQ(run.differences, "") << c.name();
    EXPECT_EQ(beyond_bounds(run, reference_of(one)), "") << c.name();
  }
}

// Adapters whose second matrix is still 0 add nothing to keys and values, but these have to travel
// themselves. A row that is made from a latent has the same bits on every rank.
TEST(ParityOfAttentionVariants, KeysAndValuesMadeFromLatentsHaveTheBitsOfThoseSent) {
  for (const int cp : {2, 4}) {
    Case c{.family = "llama_latent", .cp = cp, .is_wide = true, .layers = 2, .sequences = 4};
    const double of_latents = run_case(c).losses.front();
    c.lora_rank = 2;
    EXPECT_EQ(run_case(c).losses.front(), of_latents) << cp;
  }
}

}  // namespace
}  // namespace trireme
