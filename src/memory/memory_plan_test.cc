#include "memory/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/check.h"

namespace trireme {
namespace {

ChunkTables chunk_of(bool split_backward) {
  ModelConfig config;
  config.layers = 2;
  config.d_model = 32;
  config.heads = 4;
  config.vocab_size = 61;
  config.seq_len = 16;
  const ModelSpec model = *resolve_model(config, 0);
  StageShape shape{1, DType::BF16};
  shape.split_backward = split_backward;
  return chunk_tables(model, whole_model(model), shape, {}, {});
}

MemoryPlan plan_of(const Program& program, const ChunkTables& chunk, int64_t workspace_bytes) {
  MemoryNeeds needs;
  needs.chunks.push_back({&chunk});
  needs.workspace_bytes = workspace_bytes;
  return plan_memory(program, {}, needs);
}

Action action_of(ActionKind kind, int microbatch) {
  return {.kind = kind, .microbatch = microbatch};
}

// Any order in which every micro-batch passes through F, then B and W or BW.
Program random_program(std::mt19937& random, int num_microbatches, bool split) {
  std::vector<int> progress(num_microbatches, 0);
  const int num_phases = split ? 3 : 2;
  Program program;
  bool first_w = true;
  while (program.size() < size_t(num_phases * num_microbatches)) {
    const int k = int(random() % num_microbatches);
    if (progress[k] == num_phases) continue;
    const int phase = progress[k]++;
    const ActionKind kind = phase == 0   ? ActionKind::F
                            : !split     ? ActionKind::BW
                            : phase == 1 ? ActionKind::B
                                         : ActionKind::W;
    program.push_back(action_of(kind, k));
    if (phase == num_phases - 1) {
      program.back().accumulate = !first_w;
      first_w = false;
    }
  }
  program.push_back({.kind = ActionKind::Step, .chunk = -1, .microbatch = -1});
  return program;
}

struct Peak {
  int64_t bytes = 0;
  int64_t action = 0;
  int saved = 0;        // micro-batches between F and W at one time
  int weight_grad = 0;  // between B and W
};

// The definition, without slots: a micro-batch's activations live from F to W, what W reads lives
// from B to W, the gradient from the first W to Step.
Peak peak_by_definition(const Program& program, const StageTables& tables, int64_t workspace) {
  const int64_t permanent =
      tables.params.bytes() + tables.optimizer.bytes() + tables.scratch.bytes() + workspace;
  Peak peak{.bytes = permanent};
  int in_flight = 0, between_b_and_w = 0;
  bool gradient = false;
  for (size_t i = 0; i < program.size(); ++i) {
    const ActionKind kind = program[i].kind;
    in_flight += kind == ActionKind::F;
    between_b_and_w += kind == ActionKind::B;
    const bool is_w = kind == ActionKind::W || kind == ActionKind::BW;
    gradient = gradient || is_w;
    const int64_t bytes = permanent + in_flight * tables.saved.bytes() +
                          between_b_and_w * tables.weight_grad.bytes() +
                          gradient * tables.grads.bytes();
    if (bytes > peak.bytes) {
      peak.bytes = bytes;
      peak.action = int64_t(i);
    }
    peak.saved = std::max(peak.saved, in_flight);
    peak.weight_grad = std::max(peak.weight_grad, between_b_and_w);
    in_flight -= is_w;
    between_b_and_w -= kind == ActionKind::W;
  }
  return peak;
}

TEST(MemoryPlan, PeakAndSlotsFollowTheDefinitionForEveryOrder) {
  for (const bool split : {false, true}) {
    const ChunkTables chunk = chunk_of(split);
    const StageTables& tables = chunk.tables;
    for (unsigned seed = 0; seed < 100; ++seed) {
      std::mt19937 random(seed);
      const Program program = random_program(random, 1 + int(random() % 9), split);
      const MemoryPlan plan = plan_of(program, chunk, 4096);
      const Peak expected = peak_by_definition(program, tables, 4096);
      SCOPED_TRACE(to_string(program, 1));
      EXPECT_EQ(plan.peak_bytes, expected.bytes);
      EXPECT_EQ(plan.peak_action, expected.action);
      EXPECT_EQ(int(plan.chunks[0].saved_slots.size()), expected.saved);
      EXPECT_EQ(int(plan.chunks[0].weight_grad_slots.size()), expected.weight_grad);
      EXPECT_EQ(plan.chunks[0].grad_slots.size(), 1u);
      EXPECT_GE(plan.arena_bytes, plan.peak_bytes);
    }
  }
}

TEST(MemoryPlan, RegionsAreAlignedAndNeverOverlap) {
  const ChunkTables chunk = chunk_of(true);
  std::mt19937 random(3);
  const MemoryPlan plan = plan_of(random_program(random, 7, true), chunk, 8192);
  std::vector<MemoryRegion> regions = plan.regions;
  std::sort(regions.begin(), regions.end(),
            [](const MemoryRegion& a, const MemoryRegion& b) { return a.offset < b.offset; });
  int64_t end = 0;
  for (const MemoryRegion& region : regions) {
    EXPECT_EQ(region.offset % 64, 0) << region.name;
    EXPECT_GE(region.offset, end) << region.name;
    end = region.offset + region.bytes;
  }
  EXPECT_EQ(end, plan.arena_bytes);
}

// Replays acquire and release: nothing becomes live twice, and an action's slots are live in it.
TEST(MemoryPlan, EveryActionsSlotsAreLiveAndItsOwn) {
  for (const bool split : {false, true}) {
    const ChunkTables chunk = chunk_of(split);
    for (unsigned seed = 0; seed < 50; ++seed) {
      std::mt19937 random(seed);
      const Program program = random_program(random, 1 + int(random() % 9), split);
      const MemoryPlan plan = plan_of(program, chunk, 4096);
      SCOPED_TRACE(to_string(program, 1));
      std::set<int> live(plan.permanent.begin(), plan.permanent.end());
      std::map<int, int> microbatch_in;  // saved slot -> its micro-batch
      ASSERT_EQ(plan.actions.size(), program.size());
      for (size_t i = 0; i < program.size(); ++i) {
        const ActionMemory& memory = plan.actions[i];
        for (int region : memory.acquire) EXPECT_TRUE(live.insert(region).second);
        if (program[i].kind == ActionKind::F) {
          microbatch_in[memory.saved_slot] = program[i].microbatch;
        }
        if (program[i].kind != ActionKind::Step) {
          EXPECT_EQ(microbatch_in.at(memory.saved_slot), program[i].microbatch);
          EXPECT_TRUE(live.contains(plan.chunks[0].saved_slots[memory.saved_slot]));
        }
        if (memory.weight_grad_slot >= 0) {
          EXPECT_TRUE(live.contains(plan.chunks[0].weight_grad_slots[memory.weight_grad_slot]));
        }
        for (int region : memory.release) EXPECT_EQ(live.erase(region), 1u);
      }
      EXPECT_EQ(live, std::set<int>(plan.permanent.begin(), plan.permanent.end()));
    }
  }
}

TEST(MemoryPlan, ClassesAddUpToThePermanentBytesAndTheSlots) {
  const ChunkTables chunk = chunk_of(true);
  const StageTables& tables = chunk.tables;
  std::mt19937 random(11);
  const MemoryPlan plan = plan_of(random_program(random, 5, true), chunk, 4096);
  const auto of = [&](MemoryClass c) { return plan.class_bytes[int(c)]; };
  EXPECT_EQ(of(MemoryClass::Params), tables.params.bytes());
  EXPECT_EQ(of(MemoryClass::Optimizer), tables.optimizer.bytes());
  EXPECT_EQ(of(MemoryClass::Grads), tables.grads.bytes());
  EXPECT_EQ(of(MemoryClass::Scratch), tables.scratch.bytes() + 4096);
  EXPECT_EQ(of(MemoryClass::Comm), 0);
  EXPECT_LE(of(MemoryClass::Activations),
            int64_t(plan.chunks[0].saved_slots.size()) * tables.saved.bytes() +
                int64_t(plan.chunks[0].weight_grad_slots.size()) * tables.weight_grad.bytes());
}

TEST(MemoryPlan, AJoinOfGradientsFreesTheRightOperand) {
  const ChunkTables chunk = chunk_of(false);
  const StageTables& tables = chunk.tables;
  Program program = {action_of(ActionKind::F, 0), action_of(ActionKind::BW, 0),
                     action_of(ActionKind::F, 1), action_of(ActionKind::BW, 1)};
  program[3].grad_slot = 1;
  program.push_back(
      {.kind = ActionKind::SumGrad, .microbatch = -1, .grad_slot = 0, .grad_slot_b = 1});
  program.push_back({.kind = ActionKind::Step, .chunk = -1, .microbatch = -1});
  const MemoryPlan plan = plan_of(program, chunk, 4096);
  ASSERT_EQ(plan.chunks[0].grad_slots.size(), 2u);
  EXPECT_EQ(plan.class_bytes[int(MemoryClass::Grads)], 2 * tables.grads.bytes());
  EXPECT_EQ(plan.actions[4].release, std::vector<int>{plan.chunks[0].grad_slots[1]});
  EXPECT_EQ(plan.actions[5].release, std::vector<int>{plan.chunks[0].grad_slots[0]});
  EXPECT_EQ(plan.peak_action, 3);
}

TEST(MemoryPlan, AProgramOutOfOrderIsACodeError) {
  const ChunkTables chunk = chunk_of(false);
  EXPECT_THROW(plan_of({action_of(ActionKind::BW, 0)}, chunk, 64), ContractError);
  EXPECT_THROW(plan_of({action_of(ActionKind::F, 0)}, chunk, 64), ContractError);
}

TEST(MemoryPlan, NamesTheLargestTensor) {
  const ChunkTables chunk = chunk_of(false);
  const StageTables& tables = chunk.tables;
  const MemoryPlan plan =
      plan_of({action_of(ActionKind::F, 0), action_of(ActionKind::BW, 0)}, chunk, 64);
  const std::string text = largest_tensor(plan, {&chunk, 1});
  int64_t largest = 0, named = -1;
  for (const TensorTable* table :
       {&tables.params, &tables.optimizer, &tables.scratch, &tables.grads, &tables.saved}) {
    for (const TensorSpec& tensor : table->tensors()) {
      largest = std::max(largest, tensor.bytes());
      if (text.find("/" + tensor.name + " ") != std::string::npos) named = tensor.bytes();
    }
  }
  EXPECT_EQ(named, largest) << text;
}

}  // namespace
}  // namespace trireme
