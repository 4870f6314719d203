// Gradients, moments and weights in other dtypes keep the laws of layouts.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "layout_case.h"
#include "layout_laws.h"

namespace trireme {
namespace {

std::filesystem::path folder_of_test(const char* name) {
  return std::filesystem::temp_directory_path() / fmt::format("trireme-{}-{}", name, getpid());
}

// Weights, moments and gradients in bf16 repeat the bits of one rank on every layout that cuts them
// differently, with experts and servers, and a checkpoint goes on in every other one.
TEST(ParityOfStateDTypes, EveryLayoutLeavesTheBitsOfOneRank) {
  for (const Kept kept : {Kept::In16, Kept::In12, Kept::In10, Kept::In8, Kept::In6}) {
    for (Case c : {Case{.dp = 8, .zero = 3}, Case{.dp = 4, .zero = 2, .hsdp_shard = 2},
                   Case{.dp = 2, .pp = 4, .schedule = ScheduleKind::Dualpipe, .zero = 1},
                   Case{.dp = 2, .pp = 2, .zero = 3, .tp = 2, .offload = OffloadChoice::All},
                   Case{.dp = 2, .zero = 2, .family = "moe", .ep = 2}, Case{.dp = 2, .servers = 1},
                   Case{.dp = 2, .zero = 3, .family = "llama", .dropout = 0.1, .cp = 2}}) {
      c.compute = ComputeChoice::Bf16;
      c.kept = kept;
      expect_the_bits_of_one_rank(c);
    }
  }
}

TEST(ParityOfStateDTypes, ACheckpointMovesBetweenLayouts) {
  const std::filesystem::path root = folder_of_test("kept");
  for (const Kept kept : {Kept::In16, Kept::In12, Kept::In10, Kept::In8, Kept::In6}) {
    const Case layouts[] = {{.compute = ComputeChoice::Bf16, .kept = kept},
                            {.dp = 4, .zero = 3, .compute = ComputeChoice::Bf16, .kept = kept},
                            {.dp = 2,
                             .pp = 2,
                             .zero = 1,
                             .compute = ComputeChoice::Bf16,
                             .kept = kept,
                             .offload = OffloadChoice::Optimizer}};
    for (const Case& from : layouts) {
      const std::string folder = (root / std::to_string(int(kept))).string();
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
  }
  std::filesystem::remove_all(root);
}

// A checkpoint is loaded as other dtypes. Layers read the same weights in bf16, so the next loss is
// the same, with a master and without.
TEST(ParityOfStateDTypes, ACheckpointIsLoadedAsOtherDTypes) {
  const std::filesystem::path root = folder_of_test("other-kept");
  for (const Kept from : {Kept::In18, Kept::In12, Kept::In8}) {
    const Case written{.compute = ComputeChoice::Bf16, .kept = from};
    const std::string folder = (root / std::to_string(int(from))).string();
    run_layout(plan_of(written), {.end = 2, .save_to = folder});
    for (const Kept to : {Kept::In18, Kept::In16, Kept::In12, Kept::In8}) {
      const LayoutRun rest =
          run_layout(plan_of({.dp = 2, .zero = 1, .compute = ComputeChoice::Bf16, .kept = to}),
                     {.first = 2, .end = 3, .load_from = folder + "/step-000002"});
      EXPECT_EQ(rest.losses.front(), reference_of(written).losses[2]);
    }
  }
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace trireme
