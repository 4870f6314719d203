// The layouts of known models (configs/layouts/), scaled down to eight ranks and small widths, keep
// the laws: the numbers of one rank, and the memory and traffic of the plan.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "config/config_load.h"
#include "layout_laws.h"
#include "layout_run.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

const std::filesystem::path kRoot =
    std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();

// Widths for which eight ranks can share every axis. Each keeps what the models have: latents,
// dense first layers, shared experts and groups of experts.
const std::vector<std::string> kSmallWidths = {"model.d_model=16",       "model.heads=8",
                                               "model.head_dim=4",       "model.d_ff=8",
                                               "model.vocab_size=19",    "model.seq_len=16",
                                               "model.experts=8",        "model.top_k=2",
                                               "model.init_stddev=0.2",  "batch.micro_sequences=1",
                                               "precision.compute=fp32", "optim.moment_dtype=fp32",
                                               "optim.clip_norm=0.5",    "run.reproducible=layout",
                                               "run.threads_per_rank=1", "run.comm_timeout_s=60"};
const std::vector<std::string> kSmallLatents = {"model.kv_lora_rank=6", "model.q_lora_rank=5",
                                                "model.qk_rope_head_dim=2", "model.v_head_dim=3",
                                                "model.dense_d_ff=24"};

struct ScaledLayout {
  const char* file;
  std::vector<std::string> sizes;    // of the model and the batch
  std::vector<std::string> degrees;  // of eight ranks
};

const ScaledLayout kLayouts[] = {
    {"deepseek-v3-2048",
     {"model.layers=8", "model.dense_layers=1", "model.expert_groups=4", "model.top_groups=2",
      "batch.global_sequences=16"},
     {"parallel.dp=4", "parallel.pp=2", "parallel.ep=4"}},
    {"kimi-k2-512",
     {"model.layers=8", "model.dense_layers=1", "batch.global_sequences=16"},
     {"parallel.dp=2", "parallel.pp=4", "parallel.ep=2"}},
    {"glm-5-1664",
     {"model.layers=6", "model.dense_layers=1", "batch.global_sequences=8",
      "model.index_top_k=0"},  // no kernel chooses keys
     {"parallel.dp=2", "parallel.pp=2", "parallel.cp=2", "parallel.ep=2"}},
    {"solar-open-480",
     {"model.layers=4", "model.kv_heads=4", "batch.global_sequences=16"},
     {"parallel.dp=8", "parallel.hsdp_shard=4"}},
};

RunConfig config_of(const ScaledLayout& layout, std::vector<std::string> more) {
  std::vector<std::string> overrides = kSmallWidths;
  const bool has_latents = std::string(layout.file) != "solar-open-480";
  if (has_latents) overrides.insert(overrides.end(), kSmallLatents.begin(), kSmallLatents.end());
  for (const std::vector<std::string>* part : {&layout.sizes, &layout.degrees}) {
    overrides.insert(overrides.end(), part->begin(), part->end());
  }
  overrides.insert(overrides.end(), more.begin(), more.end());
  const Result<LoadedConfig> loaded =
      load_config({.files = {(kRoot / "configs/layouts" / layout.file).string() + ".toml"},
                   .overrides = overrides,
                   .model_folders = {(kRoot / "models").string()}});
  TRIREME_CHECK(loaded.ok(), loaded.error().message);
  return loaded->config;
}

LayoutRun run_of(const RunConfig& config) {
  const Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  EXPECT_EQ(plan->num_ranks() == 1, config.parallel.dp == 1);
  return run_layout(*plan, {.end = 2, .evaluates = false});
}

TEST(ParityOfKnownLayouts, ScaledDownCopiesKeepTheNumbersOfOneRank) {
  for (const ScaledLayout& layout : kLayouts) {
    SCOPED_TRACE(layout.file);
    const LayoutRun run = run_of(config_of(layout, {}));
    EXPECT_EQ(run.differences, "");  // memory and traffic are as planned
    const LayoutRun one = run_of(
        config_of(layout, {"parallel.dp=1", "parallel.pp=1", "parallel.cp=1", "parallel.ep=1",
                           "parallel.zero=0", "parallel.hsdp_shard=0", "parallel.schedule=1f1b",
                           "parallel.chunks=1", "memory.recompute=none"}));
    EXPECT_EQ(beyond_bounds(run, one), "");
    EXPECT_LT(run.losses.back(), run.losses.front() + 0.5);
  }
}

// Without experts on other ranks not a bit changes.
TEST(ParityOfKnownLayouts, GroupsOfFsdpLeaveTheBitsOfOneRank) {
  const ScaledLayout& solar = kLayouts[3];
  const LayoutRun run = run_of(config_of(solar, {}));
  const LayoutRun one =
      run_of(config_of(solar, {"parallel.dp=1", "parallel.zero=0", "parallel.hsdp_shard=0"}));
  EXPECT_EQ(difference(run, one), "");
}

}  // namespace
}  // namespace trireme
