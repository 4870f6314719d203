#include "planner/max_model.h"

#include <gtest/gtest.h>

#include "planner/make_plan.h"

namespace trireme {
namespace {

RunConfig shaped_run(ModelFamily family, int64_t heads, int64_t kv_heads) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 4;
  config.model.heads = heads;
  config.model.kv_heads = kv_heads;
  config.model.d_model = 16 * heads;
  config.model.vocab_size = 96;
  config.model.seq_len = 16;
  config.batch.global_sequences = 4;
  config.batch.micro_sequences = 1;
  config.memory.limit_bytes = 48 << 20;
  config.memory.offload_buffer_bytes = 1 << 16;
  return config;
}

struct LaidOut {
  RunConfig config;
  Mesh mesh;
};

std::vector<LaidOut> runs_to_grow() {
  return {{shaped_run(ModelFamily::Gpt2, 4, 0), {}},
          {shaped_run(ModelFamily::Gpt2, 4, 0), {.tp = 2, .pp = 2, .dp = 2}},
          {shaped_run(ModelFamily::Llama, 8, 2), {.tp = 2, .dp = 4}},
          {shaped_run(ModelFamily::Llama, 8, 2), {.tp = 4}},
          {shaped_run(ModelFamily::Llama, 6, 1), {.pp = 2, .dp = 2}},
          {shaped_run(ModelFamily::Moe, 4, 0), {.dp = 4, .ep = 2}}};
}

RunConfig laid_out(const LaidOut& run) {
  RunConfig config = run.config;
  config.parallel.tp = run.mesh.tp;
  config.parallel.pp = run.mesh.pp;
  config.parallel.dp = run.mesh.dp;
  config.parallel.ep = run.mesh.ep;
  return config;
}

// The plan of every row fits the limit, and that of the next size does not.
TEST(MaxModel, TheNextSizeIsRefused) {
  for (const LaidOut& run : runs_to_grow()) {
    const RunConfig config = laid_out(run);
    const Result<MaxModels> found = max_models(config, {});
    ASSERT_TRUE(found.ok()) << found.error().message;
    const ModelSizes sizes(start_plan(config, {}).value());
    ASSERT_EQ(found->rows.size(), 12u);
    for (const MaxModelRow& row : found->rows) {
      ASSERT_GT(row.size, 0) << row.next_refused;
      RunConfig own = config;
      own.parallel.zero = row.zero;
      own.memory.offload = row.offload;
      own.model = row.model;
      const Result<RunPlan> plan = make_plan(own, {});
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      EXPECT_EQ(plan->num_params, row.params);
      EXPECT_EQ(plan->largest().memory.arena_bytes, row.needed_bytes);
      own.model = sizes.at(row.size + 1);
      const Result<SizedPlan> larger = make_sized_plan(own, {});
      ASSERT_TRUE(larger.ok()) << larger.error().message;
      EXPECT_FALSE(larger->fits());
      EXPECT_GT(larger->plan.num_params, row.params);
    }
    EXPECT_EQ(found->configured.params, found->rows.front().params);
  }
}

// The size of the configured model is the configured model; heads keep their width, and every
// larger size has more parameters.
TEST(MaxModel, SizesKeepTheShape) {
  for (const LaidOut& run : runs_to_grow()) {
    const RunConfig config = laid_out(run);
    const RunPlan started = start_plan(config, {}).value();
    const ModelSizes sizes(started);
    RunConfig other = config;
    other.model = sizes.at(sizes.configured());
    const RunPlan same = start_plan(other, {}).value();
    EXPECT_EQ(same.num_params, started.num_params);
    EXPECT_EQ(same.model.d_ff, started.model.d_ff);
    int64_t params = 0;
    for (int64_t size = 1; size <= 12; ++size) {
      other.model = sizes.at(size);
      const Result<RunPlan> grown = start_plan(other, {});
      ASSERT_TRUE(grown.ok()) << grown.error().message;
      EXPECT_EQ(grown->model.d_model * started.model.heads,
                grown->model.heads * started.model.d_model);
      EXPECT_EQ(grown->model.head_dim, started.model.head_dim);
      EXPECT_GT(grown->num_params, params);
      params = grown->num_params;
    }
  }
}

// With GQA a size differs from the next by as many heads as tp and the kv heads share, not by as
// many as would give every rank one more kv head.
TEST(MaxModel, StepsOfGqaOnALargeTpAreNotWiderThanItsKvHeads) {
  for (const int tp : {1, 2, 4, 8}) {
    RunConfig config = shaped_run(ModelFamily::Llama, 64, 8);
    config.parallel.tp = tp;
    const ModelSizes sizes(start_plan(config, {}).value());
    const int64_t size = sizes.configured();
    EXPECT_LE(sizes.at(size + 1).heads - sizes.at(size).heads, 8);
    EXPECT_EQ(sizes.at(size).heads, 64);
    EXPECT_EQ(sizes.at(size + 1).kv_heads % tp, 0);
  }
}

// Less memory, less ZeRO or less offload never gives a larger model.
TEST(MaxModel, MoreMemoryZeroAndOffloadNeverGiveASmallerModel) {
  RunConfig config = shaped_run(ModelFamily::Gpt2, 4, 0);
  config.parallel.dp = 4;
  std::vector<MaxModelRow> smaller;
  for (const int64_t limit : {int64_t(24) << 20, int64_t(48) << 20, int64_t(96) << 20}) {
    config.memory.limit_bytes = limit;
    const MaxModels found = max_models(config, {}).value();
    for (size_t i = 0; i < found.rows.size(); ++i) {
      if (!smaller.empty()) {
        EXPECT_GE(found.rows[i].params, smaller[i].params);
      }
      if (i % 3 > 0) {
        EXPECT_GE(found.rows[i].params, found.rows[i - 1].params);
      }
      if (i >= 3) {
        EXPECT_GE(found.rows[i].params, found.rows[i - 3].params);
      }
    }
    smaller = found.rows;
  }
}

TEST(MaxModel, AnUnknownMemoryAndASizeThatNeverFitsAreSaid) {
  RunConfig config = shaped_run(ModelFamily::Gpt2, 4, 0);
  config.memory.limit_bytes = 1000;
  const MaxModels none = max_models(config, {}).value();
  EXPECT_EQ(none.configured.params, 0);
  EXPECT_NE(none.configured.next_refused, "");
  config.memory.limit_bytes = 0;
  const Result<MaxModels> unknown = max_models(config, {});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::Usage);
}

}  // namespace
}  // namespace trireme
