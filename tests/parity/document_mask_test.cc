// Documents of one sequence that do not see each other are trained alike on every layout, and the
// places of the documents have planned memory.

#include <gtest/gtest.h>

#include "layout_case.h"
#include "layout_laws.h"

namespace trireme {
namespace {

Case masked(Case c) {
  c.document_mask = true;
  return c;
}

TEST(ParityOfDocumentMask, EveryLayoutLeavesTheBitsOfOneRank) {
  for (const Case& c : {
           Case{.dp = 4, .zero = 3},
           Case{.dp = 2, .zero = 3, .recompute = Recompute::Full, .compute = ComputeChoice::Bf16},
           Case{.dp = 2, .pp = 4, .schedule = ScheduleKind::ZbH1, .zero = 1},
           Case{.dp = 2, .pp = 2, .schedule = ScheduleKind::Dualpipe, .zero = 2, .family = "llama"},
           Case{.pp = 2, .schedule = ScheduleKind::Interleaved, .family = "llama"},
           Case{.dp = 2, .zero = 2, .tp = 2},
           Case{.dp = 2, .zero = 3, .tp = 2, .sequence = true, .cp = 2},
           Case{.dp = 2, .pp = 2, .family = "llama", .cp = 2, .context = ContextExchange::Ring},
           Case{.dp = 2, .recompute = Recompute::Selective, .dropout = 0.1},
           Case{.dp = 2, .zero = 1, .offload = OffloadChoice::All},
           Case{.dp = 2, .zero = 1, .post_validate = true},
           Case{.dp = 2, .zero = 2, .family = "moe"},
           Case{.dp = 2, .zero = 1, .kept = Kept::In12},
       }) {
    expect_the_bits_of_one_rank(masked(c));
  }
}

TEST(ParityOfDocumentMask, TensorAndContextParallelismStayWithinTheBounds) {
  for (const char* family : {"gpt2", "llama", "moe"}) {
    const LayoutRun& one = reference_of(masked({.family = family, .is_wide = true}));
    for (const Case& c :
         {Case{.tp = 4}, Case{.tp = 2, .sequence = true}, Case{.cp = 4},
          Case{.cp = 4, .context = ContextExchange::AllToAll}, Case{.tp = 2, .cp = 2},
          Case{.pp = 2, .cp = 2, .context = ContextExchange::AllToAll}}) {
      Case split = masked(c);
      split.family = family;
      split.is_wide = true;
      const LayoutRun run = run_case(split);
      EXPECT_EQ(run.differences, "") << split.name();
      EXPECT_EQ(beyond_bounds(run, one), "") << split.name();
    }
  }
}

// The mask changes the losses, and leaves out the tokens behind the ends of documents.
TEST(ParityOfDocumentMask, TheMaskLeavesOutTokensBehindDocuments) {
  const LayoutRun plain = run_case({}), mask = run_case(masked({}));
  ASSERT_EQ(plain.valid_tokens.size(), mask.valid_tokens.size());
  for (size_t step = 0; step < plain.valid_tokens.size(); ++step) {
    EXPECT_LT(mask.valid_tokens[step], plain.valid_tokens[step]);
    EXPECT_GT(mask.valid_tokens[step], plain.valid_tokens[step] / 2);
  }
  EXPECT_NE(plain.val_loss, mask.val_loss);
}

}  // namespace
}  // namespace trireme
