#include "planner/memory_as.h"

#include <gtest/gtest.h>

#include "planner/make_plan.h"

namespace trireme {
namespace {

RunConfig pipeline_of(int pp, int64_t layers, int64_t micro_batches) {
  RunConfig config;
  config.data.source = DataSource::Synthetic;
  config.model.layers = layers;
  config.model.d_model = 64;
  config.model.heads = 4;
  config.model.seq_len = 32;
  config.model.vocab_size = 64;  // a head that costs less than a layer
  config.model.dropout = 0.1;
  config.precision.compute = ComputeChoice::Bf16;
  config.parallel.pp = pp;
  config.batch.micro_sequences = 2;
  config.batch.global_sequences = 2 * micro_batches;
  return config;
}

std::vector<TrainerMemory> stages_of(const RunConfig& config, const TrainerRules& rules) {
  const Result<RunPlan> plan = make_plan(config, {});
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
  return memory_as(*plan, rules).value();
}

double layer_bytes(const RunConfig& config, const TrainerRules& rules) {
  const RunPlan plan = make_plan(config, {}).value();
  return kept_bytes(plan.model, rules, plan.shape);
}

TEST(StateBytes, EveryLevelSharesOutOneMorePart) {
  for (const int ranks : {1, 2, 8, 64}) {
    for (const StateBytes& state : {kZeroPaperState, StateBytes{2, 4, 12}, kBf16MomentState}) {
      const auto total = [&](int level) { return state.shared(level, ranks).total(); };
      EXPECT_EQ(total(0), state.total());
      EXPECT_DOUBLE_EQ(total(0) - total(1), state.optimizer * (1.0 - 1.0 / ranks));
      EXPECT_DOUBLE_EQ(total(1) - total(2), state.grads * (1.0 - 1.0 / ranks));
      EXPECT_DOUBLE_EQ(total(3), state.total() / ranks);
    }
  }
}

// Korthikanti et al. 2022, equations 1 to 6, for other shapes than those of the paper.
TEST(KeptByLayer, MegatronKeepsWhatItsPaperSays) {
  const TrainerRules rules = megatron_with_scores();
  for (const int64_t heads : {2, 8}) {
    for (const int tp : {1, 2, 4}) {
      ModelSpec model = with_defaults(pipeline_of(1, 2, 1).model, 0);
      model.heads = model.kv_heads = heads;
      model.head_dim = model.v_head_dim = model.d_model / heads;
      const double sbh = 3.0 * double(model.seq_len * model.d_model);
      const double scores = 5.0 * double(heads * model.seq_len) / double(model.d_model);
      StageShape shape = {.micro_sequences = 3, .tp = tp};
      EXPECT_NEAR(kept_bytes(model, rules, shape) / (sbh * (10 + 24.0 / tp + scores / tp)), 1.0,
                  1e-12);
      shape.sequence_parallel = true;
      EXPECT_NEAR(kept_bytes(model, rules, shape) / (sbh * (34 + scores) / tp), 1.0, 1e-12);
      shape.recompute = Recompute::Selective;
      EXPECT_NEAR(kept_bytes(model, rules, shape) / (sbh * 34 / tp), 1.0, 1e-12);
      shape.recompute = Recompute::Full;
      EXPECT_NEAR(kept_bytes(model, rules, shape) / (sbh * 2 / tp), 1.0, 1e-12);
    }
  }
}

// What is offloaded is no memory of the device, and nothing else changes.
TEST(MemoryAs, OffloadMovesTheStateToTheHost) {
  for (const TrainerKind trainer :
       {TrainerKind::Megatron, TrainerKind::Torchtitan, TrainerKind::DeepSpeed}) {
    const TrainerRules rules = rules_of(trainer);
    RunConfig config = pipeline_of(1, 2, 4);
    config.parallel.dp = 2;
    config.parallel.zero = rules.most_zero;
    const TrainerMemory before = stages_of(config, rules).front();
    for (const OffloadChoice offload : {OffloadChoice::Optimizer, OffloadChoice::All}) {
      config.memory.offload = offload;
      const RunPlan plan = make_plan(config, {}).value();
      const auto after = memory_as(plan, rules);
      const bool has_it =
          offload == OffloadChoice::All ? rules.offloads_all : rules.offloads_optimizer;
      ASSERT_EQ(after.ok(), has_it) << name_of(trainer);
      if (!has_it) {
        EXPECT_EQ(after.error().message.find("memory.offload = "), 0u);
        continue;
      }
      const TrainerMemory& memory = after->front();
      EXPECT_EQ(memory.optimizer, 0.0);
      EXPECT_EQ(memory.params, offload == OffloadChoice::All ? 0.0 : before.params);
      EXPECT_EQ(memory.grads, config.parallel.zero >= 2 ? 0.0 : before.grads);
      EXPECT_EQ(memory.activations, before.activations);
      EXPECT_EQ(memory.blocks, before.blocks);
    }
  }
}

// The formulas are those of AdamW that trains every parameter.
TEST(MemoryAs, WhatTheFormulasDoNotDescribeIsRefused) {
  RunConfig adapted = pipeline_of(1, 2, 1), frozen = adapted, muon = adapted, whole = adapted;
  adapted.model.lora_rank = 4;
  frozen.optim.frozen = "layers.*";
  muon.optim.name = OptimizerKind::Muon;
  whole.memory.offload = OffloadChoice::Optimizer;  // without ZeRO
  const std::vector<std::pair<RunConfig, std::string>> refusals = {
      {adapted, "model.lora_rank = 4: "},
      {frozen, "optim.frozen = \"layers.*\": "},
      {muon, "optim.name = \"muon\": "},
      {whole, "memory.offload = \"optimizer\": "}};
  for (const auto& [config, begin] : refusals) {
    const auto refused = memory_as(make_plan(config, {}).value(), rules_of(TrainerKind::Megatron));
    ASSERT_FALSE(refused.ok()) << begin;
    EXPECT_EQ(refused.error().kind, ErrorKind::Infeasible);
    EXPECT_EQ(refused.error().message.find(begin), 0u) << refused.error().message;
  }
}

// Without the embedding and the head, which only the ends hold.
TEST(MemoryAs, OneFOneBKeepsAsManyMicrobatchesAsStagesAreLeft) {
  const TrainerRules rules = megatron_with_scores();
  for (const int pp : {3, 4, 6}) {
    for (const int64_t micro_batches : {2, 4, 12}) {
      const RunConfig config = pipeline_of(pp, 2 * pp, micro_batches);
      const std::vector<TrainerMemory> stages = stages_of(config, rules);
      ASSERT_EQ(stages.size(), size_t(pp));
      for (int stage = 1; stage + 1 < pp; ++stage) {
        const double live = double(std::min<int64_t>(micro_batches, pp - stage));
        EXPECT_NEAR(stages[size_t(stage)].activations / (2 * live * layer_bytes(config, rules)),
                    1.0, 1e-12);
      }
    }
  }
}

// The first of p stages, each in v chunks, keeps 1 + (p - 1) / (p v) as much as with one chunk.
TEST(MemoryAs, InterleavingKeepsMoreOfTheFirstStage) {
  const TrainerRules rules = megatron_with_scores();
  for (const int chunks : {2, 3}) {
    RunConfig config = pipeline_of(4, 4 * chunks, 16);
    config.model.dropout = 0.0;  // no mask behind the embedding
    const double plain = stages_of(config, rules).front().activations;
    config.parallel.schedule = ScheduleKind::Interleaved;
    config.parallel.chunks = chunks;
    const double interleaved = stages_of(config, rules).front().activations;
    EXPECT_NEAR(interleaved / plain, 1.0 + 3.0 / (4.0 * chunks), 1e-12) << chunks;
  }
}

TEST(MemoryAs, RecomputationNeverKeepsMore) {
  for (const TrainerKind trainer :
       {TrainerKind::Megatron, TrainerKind::Torchtitan, TrainerKind::DeepSpeed}) {
    double before = std::numeric_limits<double>::infinity();
    for (const Recompute recompute : kRecomputes) {
      RunConfig config = pipeline_of(2, 8, 4);
      config.memory.recompute = recompute;
      const double total = greatest(stages_of(config, rules_of(trainer))).total();
      EXPECT_LE(total, before) << name_of(trainer);
      before = total;
    }
  }
}

// torchtitan with its policy "op" keeps the input, the outputs of the products of queries, values,
// the gate and the last one, and attention's output with a number for each head.
TEST(KeptByLayer, TorchtitanKeepsEverySecondProduct) {
  RunConfig config = pipeline_of(1, 2, 1);
  config.model.family = ModelFamily::Llama;
  config.model.kv_heads = 2;
  config.model.d_ff = 192;
  config.model.dropout = 0.0;
  const ModelSpec model = with_defaults(config.model, 0);
  const StageShape shape{.micro_sequences = 3, .recompute = Recompute::Selective};
  const double tokens = 3.0 * 32.0, width = 64.0, heads = 4.0;
  const double numbers = width + width + width / 2.0 + width + 192.0 + width;
  EXPECT_EQ(kept_bytes(model, rules_of(TrainerKind::Torchtitan), shape),
            tokens * (2.0 * numbers + 4.0 * heads));
}

TEST(MemoryAs, RefusesWhatTheTrainerCannotDo) {
  RunConfig config = pipeline_of(1, 2, 2);
  config.parallel.dp = 2;
  config.parallel.zero = 3;
  const RunPlan plan = make_plan(config, {}).value();
  const auto refused = memory_as(plan, rules_of(TrainerKind::Megatron));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Infeasible);
  EXPECT_NE(refused.error().message.find("parallel.zero = 1"), std::string::npos);
  EXPECT_TRUE(memory_as(plan, rules_of(TrainerKind::DeepSpeed)).ok());
}

TEST(Trainer, NamesAreFoundAndTheNearestIsSuggested) {
  for (const TrainerKind trainer :
       {TrainerKind::Megatron, TrainerKind::Torchtitan, TrainerKind::DeepSpeed}) {
    EXPECT_EQ(trainer_named(name_of(trainer)).value(), trainer);
  }
  const Result<TrainerKind> refused = trainer_named("megatorn");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::Usage);
  EXPECT_NE(refused.error().message.find("did you mean 'megatron'"), std::string::npos);
}

}  // namespace
}  // namespace trireme
