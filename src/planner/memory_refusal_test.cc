#include "planner/memory_refusal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/units.h"
#include "planner/compile_to_fit.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

RunConfig some_run(int dp) {
  RunConfig config;
  config.model.family = ModelFamily::Gpt2;
  config.model.layers = 4;
  config.model.d_model = 256;
  config.model.heads = 4;
  config.model.d_ff = 1024;
  config.model.vocab_size = 512;
  config.model.seq_len = 32;
  config.parallel.dp = dp;
  config.batch.global_sequences = 4;
  config.batch.micro_sequences = 2;
  config.memory.offload_buffer_bytes = 1 << 16;
  return config;
}

int64_t bytes_of(const RunConfig& config) { return make_plan(config, {}).value().arena_bytes(); }

std::string message_on(const RunConfig& config, int64_t memory_bytes) {
  const Result<RunPlan> plan = make_plan(config, {.memory_bytes = memory_bytes});
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? "" : plan.error().message;
}

bool says(const std::string& message, const std::string& text) {
  return message.find(text) != std::string::npos;
}

// The configuration that needs the least memory with this memory.offload.
RunConfig leanest(RunConfig config, OffloadChoice offload) {
  config.memory.recompute = Recompute::Full;
  config.memory.offload = offload;
  config.batch.micro_sequences = 1;
  return config;
}

TEST(MemoryRefusal, NamesAFileBeforeASmallerModel) {
  const RunConfig config = some_run(1);
  const int64_t in_file = bytes_of(leanest(config, OffloadChoice::Optimizer));
  ASSERT_LT(in_file, bytes_of(leanest(config, OffloadChoice::None)));
  const std::string message = message_on(config, in_file);
  EXPECT_TRUE(says(message, "--set memory.offload=optimizer")) << message;
  EXPECT_TRUE(says(message, "(needs " + format_bytes(in_file) + ")")) << message;
  EXPECT_FALSE(says(message, "parallel.zero")) << message;
}

TEST(MemoryRefusal, NamesZeroWhereRanksHoldTheSame) {
  RunConfig config = leanest(some_run(2), OffloadChoice::None);
  RunConfig sharded = config;
  sharded.parallel.zero = 1;
  ASSERT_LT(bytes_of(sharded), bytes_of(config));
  const std::string message = message_on(config, bytes_of(sharded));
  EXPECT_TRUE(says(message, "Cheapest change that fits: --set parallel.zero=1 (needs")) << message;
  EXPECT_TRUE(says(
      message, fmt::format("this machine has {} for all ranks", format_bytes(bytes_of(sharded)))))
      << message;
}

// If nothing else fits, the remedy is fewer threads, as many as there is memory for.
TEST(MemoryRefusal, NamesFewerThreadsWhereTheirWorkspaceIsTheLargestPiece) {
  RunConfig config = some_run(1);
  config.model.layers = 1;
  config.model.d_model = 32;
  config.model.d_ff = 64;
  config.run.threads_per_rank = 8;
  for (const int threads : {4, 2, 1}) {
    RunConfig fewer = config;
    fewer.run.threads_per_rank = threads;
    const std::string message = message_on(config, bytes_of(fewer));
    EXPECT_TRUE(says(message, fmt::format("--set run.threads_per_rank={} (needs {})", threads,
                                          format_bytes(bytes_of(fewer)))))
        << message;
    EXPECT_TRUE(
        says(message, "the largest piece is the kernels' workspace, 32.0 MiB for 8 threads"))
        << message;
  }
  EXPECT_TRUE(says(message_on(config, 1 << 16),
                   "No recomputation, micro-batch, memory.offload or run.threads_per_rank makes"));
}

// Ranks that share one memory are not told to use more ranks.
TEST(MemoryRefusal, AsksForWhatHelps) {
  for (const int dp : {1, 2}) {
    const RunConfig config = some_run(dp);
    const std::string shared = message_on(config, 1 << 20);
    EXPECT_TRUE(says(shared, "a smaller model or a machine with more memory")) << shared;
    EXPECT_EQ(says(shared, "parallel.zero"), dp > 1) << shared;
    RunConfig limited = config;
    limited.memory.limit_bytes = 1 << 20;
    const std::string of_ranks = message_on(limited, 0);
    EXPECT_TRUE(says(of_ranks, "a smaller model or more ranks")) << of_ranks;
  }
}

// Experts that drop nothing have memory for all tokens of their group, which a capacity bounds.
TEST(MemoryRefusal, NamesTheCapacityOfExperts) {
  RunConfig config = some_run(4);
  config.model.family = ModelFamily::Moe;
  config.model.experts = 8;
  config.parallel.ep = 4;
  config.model.seq_len = 512;
  config.batch.global_sequences = 16;
  const auto leanest_with = [&](double capacity_factor) {
    RunConfig lean = config;
    lean.model.capacity_factor = capacity_factor;
    lean.run.threads_per_rank = 1;
    lean.batch.micro_sequences = 1;
    lean.parallel.zero = 3;
    lean.memory.offload = OffloadChoice::All;
    lean.memory.recompute = Recompute::Full;
    return bytes_of(lean);
  };
  ASSERT_LT(leanest_with(1.25), leanest_with(0.0));
  const std::string message = message_on(config, leanest_with(1.25));
  EXPECT_TRUE(
      says(message, "so each rank has memory for the tokens of all 4 ranks of ep. Cheapest"))
      << message;
  EXPECT_TRUE(says(message, "--set model.capacity_factor=1.25")) << message;
  const int64_t too_little = leanest_with(1.25) / 2;
  const std::string without = message_on(config, too_little);
  EXPECT_TRUE(says(without, "or model.capacity_factor makes it fit")) << without;
}

TEST(MemoryRefusal, ASmallerMicroBatchKeepsTheStep) {
  RunConfig config = some_run(1);
  config.batch.global_sequences = 0;  // one micro-batch
  config.batch.micro_sequences = 4;
  RunConfig small = some_run(1);
  small.batch.micro_sequences = 1;
  const std::string message = message_on(config, bytes_of(small));
  EXPECT_TRUE(says(message, "--set batch.global_sequences=4 --set batch.micro_sequences=1"))
      << message;
}

// The changes of a model of 400 billion parameters are not tried one by one, which takes seconds.
TEST(MemoryRefusal, AModelWhoseGradientsDoNotFitIsRefusedWithTheirBytes) {
  for (const int dp : {1, 2}) {
    const RunConfig config = some_run(dp);
    const RunPlan plan = make_plan(config, {}).value();
    const int64_t bytes = plan.tightest().memory.class_bytes[int(MemoryClass::Grads)];
    EXPECT_TRUE(
        says(message_on(config, bytes - 1), "its gradients alone need " + format_bytes(bytes)));
    EXPECT_FALSE(says(message_on(config, bytes), "its gradients alone"));
    RunConfig sharded = config;
    sharded.parallel.zero = 2;  // the ranks of this host still hold all parts together
    EXPECT_TRUE(says(message_on(sharded, bytes / 2), "its gradients alone"));
    sharded.memory.limit_bytes = bytes / 2;  // of each rank; with dp = 2 it has half of them
    EXPECT_EQ(says(message_on(sharded, 0), "its gradients alone"), dp == 1);
  }
}

// The bound holds for every plan, so a plan beyond it is refused without a search, also of a
// schedule.
TEST(MemoryRefusal, GradientsAreALowerBoundOfEveryPlan) {
  for (const int dp : {1, 2}) {
    for (const int pp : {1, 2, 4}) {
      for (const int zero : {0, 1, 2, 3}) {
        for (const OffloadChoice offload : {OffloadChoice::None, OffloadChoice::All}) {
          for (const int64_t limit : {int64_t{0}, int64_t{1} << 40}) {
            if (dp == 1 && zero > 0) continue;
            RunConfig config = leanest(some_run(dp), offload);
            config.parallel.pp = pp;
            config.parallel.zero = zero;
            config.parallel.schedule = pp == 4 ? ScheduleKind::Auto : ScheduleKind::OneFOneB;
            config.memory.limit_bytes = limit;
            const Result<RunPlan> plan = make_plan(config, {});
            if (!plan.ok()) continue;  // some of them are combined with others only
            const int64_t least = least_bytes_of_gradients(*plan);
            EXPECT_GT(least, 0);
            EXPECT_LE(least, bytes_to_fit(*plan)) << dp << pp << zero << int(offload) << limit;
          }
        }
      }
    }
  }
}

// The bound of what is stored holds for every storage and schedule.
TEST(MemoryRefusal, StoredBytesAreALowerBoundOfTheirPlans) {
  for (const int dp : {1, 2}) {
    for (const int pp : {1, 2, 4}) {
      for (const int zero : {0, 1, 2, 3}) {
        for (const OffloadChoice offload : {OffloadChoice::None, OffloadChoice::All}) {
          for (const int64_t limit : {int64_t{0}, int64_t{1} << 40}) {
            RunConfig config = leanest(some_run(dp), offload);
            config.parallel.pp = pp;
            config.parallel.zero = zero;
            config.parallel.schedule = pp == 4 ? ScheduleKind::Auto : ScheduleKind::OneFOneB;
            config.memory.limit_bytes = limit;
            const Result<RunPlan> plan = make_plan(config, {});
            if (!plan.ok()) continue;
            const int64_t least = least_bytes_of_storage(*plan);
            EXPECT_GE(least, least_bytes_of_gradients(*plan));
            EXPECT_LE(least, bytes_to_fit(*plan)) << dp << pp << zero << int(offload) << limit;
          }
        }
      }
    }
  }
}

// The gradients fit, and the optimizer's state beside them does not: no schedule is searched.
TEST(MemoryRefusal, WithAScheduleThatIsSearchedTheRemediesAreThoseOfANamedOne) {
  RunConfig config = some_run(2);
  config.batch.global_sequences = 16;
  config.parallel.pp = 4;
  config.memory.limit_bytes = int64_t{1} << 40;
  const RunPlan roomy = make_plan(config, {}).value();
  const MemoryBytes& memory = roomy.tightest().memory;
  config.memory.limit_bytes = memory.class_bytes[int(MemoryClass::Optimizer)];
  const std::string named = message_on(config, 0);
  config.parallel.schedule = ScheduleKind::Auto;
  EXPECT_EQ(message_on(config, 0), named);
  EXPECT_TRUE(
      says(named, "optimizer " + format_bytes(memory.class_bytes[int(MemoryClass::Optimizer)])));
}

TEST(MemoryRefusal, AHopelessPipelineIsRefusedWithTheBytesOfItsGradients) {
  RunConfig config = some_run(1);
  config.model.layers = 8;
  config.parallel.pp = 4;
  config.parallel.schedule = ScheduleKind::Auto;
  for (const int chunks : {0, 2}) {  // 1F1B has one chunk
    config.parallel.chunks = chunks;
    config.memory.limit_bytes = 1 << 20;
    const std::string message = message_on(config, 0);
    config.memory.limit_bytes = 0;
    const int64_t least = make_plan(config, {}).value().num_params * 4 / 4;
    EXPECT_TRUE(says(message, "its gradients alone need " + format_bytes(least))) << message;
  }
}

TEST(MemoryRefusal, WorkersThatDoNotWaitKeepTheirCopies) {
  RunConfig config = some_run(2);
  config.parallel.sync = GradSync::ParameterServer;
  config.parallel.staleness = 1;
  const std::string message = message_on(config, 1 << 20);
  EXPECT_FALSE(says(message, "offload")) << message;
  EXPECT_FALSE(says(message, "zero")) << message;
  EXPECT_TRUE(says(message, "No recomputation or micro-batch makes it fit")) << message;
}

}  // namespace
}  // namespace trireme
