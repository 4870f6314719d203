#include <gtest/gtest.h>

#include "planner/brute_force_fixture.h"
#include "planner/small_run_fixture.h"

namespace trireme {
namespace {

// A run of which compute, calls and bytes each take a good part of the step on GPUs.
RunConfig gpu_run(ModelFamily family, int64_t layers) {
  RunConfig config = small_run(family, layers);
  config.model.d_model = 2048;
  config.model.heads = 16;
  config.model.d_ff = 8192;
  config.model.vocab_size = 8192;
  config.model.seq_len = 512;
  config.precision.compute = ComputeChoice::Bf16;
  return config;
}

// GPUs choose a collective by its price, in the switch of a node, around a ring or along a tree.
// The search and its bounds must choose as whole plans do.
TEST(SearchLayoutOnGpus, FindsWhatBruteForceFindsInEveryMemoryAndKeepsItsBounds) {
  struct Case {
    ModelFamily family;
    int64_t layers;
    int num_ranks, ranks_of_node;
  };
  for (const Case& c : {Case{ModelFamily::Gpt2, 4, 4, 2}, Case{ModelFamily::Llama, 3, 4, 4},
                        Case{ModelFamily::Moe, 2, 4, 2}}) {
    const RunConfig config = gpu_run(c.family, c.layers);
    const Hardware hardware = gpu_nodes(c.ranks_of_node);
    const LayoutSpace space = configured_space(config, c.num_ranks);
    const std::vector<PlannedLayout> all = brute_force(config, hardware, space);
    ASSERT_FALSE(all.empty());
    const std::vector<int64_t> corners = corners_of(all);
    ASSERT_GT(corners.size(), 2u) << "the case decides between too few layouts";
    const size_t stride = std::max<size_t>(1, corners.size() / 3);
    for (size_t i = 0; i < corners.size(); i += stride) {
      if (i > 0) expect_found(config, hardware, space, corners[i] - 1, all);
      expect_found(config, hardware, space, corners[i], all);
    }
    expect_found(config, hardware, space, corners.back(), all);
  }
}

// Orders of the mesh, buckets, prefetch and a file beside GPUs.
TEST(SearchLayoutOnGpus, FindsTheFastestWayOfEveryLayoutInEveryMemory) {
  using enum MeshAxis;
  RunConfig config = gpu_run(ModelFamily::Gpt2, 4);
  config.batch.global_sequences = 2;
  const Hardware hardware = gpu_nodes(2);
  LayoutSpace space = configured_space(config, {{.pp = 2, .dp = 2}, {.tp = 2, .dp = 2}, {.dp = 4}});
  space.zero_levels = {1, 3};
  space.orders = {kUsualOrder, {Tp, Cp, Dp, Pp}};
  space.offloads = {OffloadChoice::None, OffloadChoice::All};
  space.bucket_bytes = {0, int64_t{512} << 20};
  space.prefetches = {1, 2};
  const std::vector<PlannedLayout> all = brute_force(config, hardware, space);
  const std::vector<int64_t> corners = corners_of(all);
  const size_t stride = std::max<size_t>(1, corners.size() / 4);
  for (size_t i = 0; i < corners.size(); i += stride) {
    expect_found(config, hardware, space, corners[i], all);
  }
  expect_found(config, hardware, space, corners.back(), all);
}

}  // namespace
}  // namespace trireme
