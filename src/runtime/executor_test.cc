#include "runtime/executor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "base/allocation_count.h"
#include "comm/local/sole_rank.h"
#include "data/synthetic_source.h"
#include "device/buffer.h"
#include "kernels/kernel_table.h"
#include "models/init.h"
#include "program/make_schedule.h"
#include "runtime/tied_sum.h"

namespace trireme {
namespace {

constexpr int64_t kVocab = 41;
constexpr int64_t kSeqLen = 8;

ModelSpec model_of(const std::string& name) {
  ModelConfig config;
  config.layers = 2;
  config.d_model = 16;
  config.heads = 4;
  config.vocab_size = kVocab;
  config.seq_len = kSeqLen;
  config.init_stddev = 0.1;
  if (name == "gpt2_dropout") config.dropout = 0.1;
  if (name == "llama") {
    config.family = ModelFamily::Llama;
    config.kv_heads = 2;
    config.tied_head = false;
  }
  if (name == "moe") {
    config.family = ModelFamily::Moe;
    config.d_ff = 8;
    config.experts = 3;
    config.shared_experts = 1;
    config.balance_rate = 0.01;
  }
  return *resolve_model(config, 0);
}

const char* const kModels[] = {"gpt2", "gpt2_dropout", "llama", "moe"};

// Synthetic tokens, some of whose targets do not count.
class SomeIgnored : public TokenSource {
 public:
  int64_t vocab_size() const override { return kVocab; }
  void read_sample(uint64_t sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override {
    tokens_.read_sample(sample, inputs, targets);
    targets[sample % targets.size()] = kIgnoredTarget;
  }

 private:
  SyntheticSource tokens_{3, kVocab};
};

// What a rank is built from. None of it but the mode and the model may change a result.
struct RankSetup {
  const KernelTable* kernels = &reference_kernels();
  DType compute = DType::F32;
  Recompute recompute = Recompute::None;
  int num_threads = 1;
  AccumulateMode mode = AccumulateMode::Layout;
};

// One rank with everything that a step needs, for any order of F, B and W.
class Rank {
 public:
  Rank(const ModelSpec& model, const RankSetup& setup, const Program& order, int num_microbatches,
       bool with_step = true)
      : shape_{1, setup.compute, setup.recompute, splits_backward(order),
               setup.mode == AccumulateMode::Layout},
        plan_(plan_of(model, shape_, setup, order, num_microbatches, with_step)),
        team_(setup.num_threads),
        arena_(Buffer::allocate(plan_.memory.arena_bytes)),
        memory_(plan_, arena_.data(), team_),
        stream_(team_, memory_.workspace()),
        ctx_{stream_,
             *setup.kernels,
             sole_rank_.group(),
             sole_rank_.group(),
             sole_rank_.group(),
             sole_rank_.group()},
        optimizer_(optim()),
        pipeline_(plan_, memory_, sole_rank_.group(), sole_rank_.group(), stages_),
        data_parallel_(plan_, memory_,
                       {sole_rank_.group(), sole_rank_.group(), tied_, sole_rank_.group(),
                        sole_rank_.group(), sole_rank_.group()},
                       Algorithm::Canonical),
        offload_(plan_, memory_, "", 60.0),
        addends_(sole_rank_.group(), std::vector<GradAddends::Part>()),
        executor_(
            (bind(model),
             Executor::Parts{plan_, memory_, stages_, optimizer_, source_, sole_rank_.group(),
                             pipeline_, data_parallel_, offload_, addends_, addends_,
                             shape_.micro_sequences, kSeqLen, ContextChunks{kSeqLen, 1, 0}})) {
    init_params(ctx_, chunk().params, params(), state(), kSeed);
  }

  StepResult step(int index) {
    return executor_.run_step(ctx_, uint64_t(index) * uint64_t(plan_.microbatches.num_global),
                              1e-2);
  }
  // Gradients, where the Program has no Step that gives their slot back.
  std::map<std::string, std::vector<float>> grads() const {
    return copy(tables().grads, grad_frame());
  }
  // Parameters and the optimizer's state.
  std::map<std::string, std::vector<float>> weights() const {
    auto all = copy(tables().optimizer, state());
    if (shape_.compute == DType::F32) all.merge(copy(tables().params, params()));
    return all;
  }
  int64_t measured_peak() const { return memory_.peak_bytes(); }
  const MemoryPlan& plan() const { return plan_.memory; }
  const Executor& executor() const { return executor_; }

 private:
  static constexpr uint64_t kSeed = 11;

  static std::map<std::string, std::vector<float>> copy(const TensorTable& table,
                                                        const Frame& frame) {
    std::map<std::string, std::vector<float>> all;
    for (const TensorSpec& tensor : table.tensors()) {
      const float* values = frame.at(tensor.name).as<float>();
      all[tensor.name] = {values, values + tensor.shape.num_elements()};
    }
    return all;
  }

  static OptimConfig optim() {
    OptimConfig config;
    config.clip_norm = 0.5;
    return config;
  }

  static RankPlan plan_of(const ModelSpec& model, const StageShape& shape, const RankSetup& setup,
                          const Program& order, int num_microbatches, bool with_step) {
    RankPlan plan;
    plan.chunks.push_back(chunk_tables(model, whole_model(model), shape, {}, {}));
    plan.places.push_back({});
    plan.microbatches = MicrobatchMap::contiguous(num_microbatches);
    plan.program = accumulate(order, 1, setup.mode, plan.microbatches).program;
    if (with_step) append_step(plan.program);
    const std::pair<StageSpec, int> whole(whole_model(model), shape.tp);
    const NormChunks norm_chunks(model, shape, {&whole, 1});
    plan.num_norm_words = norm_chunks.total();
    plan.num_expert_loads = model.has_experts() ? model.layers * (model.experts + 1) : 0;
    plan.num_router_losses = model.has_experts() ? model.layers * 2 : 0;
    for (OwnedParam& owned : plan.chunks[0].owned) {
      owned.norm_word = norm_chunks.first(owned.name, 0);
    }
    MemoryNeeds needs;
    needs.chunks.push_back({&plan.chunks[0]});
    needs.workspace_bytes = setup.num_threads * kWorkspaceBytesPerThread;
    needs.exchange_bytes = exchange_words(plan) * size_of(DType::I64);
    plan.memory = plan_memory(plan.program, {}, needs);
    return plan;
  }

  void bind(const ModelSpec& model) {
    stages_.emplace_back(model, chunk().stage, shape_, tables(), memory_.stage_memory(0), kSeed);
    const ChunkRegions& regions = plan_.memory.chunks[0];
    optimizer_.add(chunk(), {memory_.at(regions.params), memory_.at(regions.grad_slots[0]),
                             memory_.at(regions.optimizer)});
  }

  const ChunkTables& chunk() const { return plan_.chunks[0]; }
  const StageTables& tables() const { return chunk().tables; }
  Frame params() const { return {tables().params, memory_.at(plan_.memory.chunks[0].params)}; }
  Frame state() const { return {tables().optimizer, memory_.at(plan_.memory.chunks[0].optimizer)}; }
  Frame grad_frame() const {
    return {tables().grads, memory_.at(plan_.memory.chunks[0].grad_slots[0])};
  }

  SomeIgnored source_;
  SoleRank sole_rank_;
  StageShape shape_;
  RankPlan plan_;
  ThreadTeam team_;
  Buffer arena_;
  RankMemory memory_;
  Stream stream_;
  Ctx ctx_;
  std::vector<Stage> stages_;
  Optimizer optimizer_;
  Pipeline pipeline_;
  TiedSum tied_{{}, {}, Algorithm::Canonical};  // no table
  DataParallel data_parallel_;
  Offload offload_;
  GradAddends addends_;
  Executor executor_;
};

// Everything that a few steps leave behind.
struct Trail {
  std::vector<double> losses, grad_norms;
  std::vector<int64_t> router_losses;
  std::map<std::string, std::vector<float>> weights;
  std::map<std::string, std::vector<float>> first_grads;
};

Trail run(const ModelSpec& model, const RankSetup& setup, const Program& order,
          int num_microbatches) {
  Trail trail;
  Rank gradients(model, setup, order, num_microbatches, false);
  gradients.step(0);
  trail.first_grads = gradients.grads();
  Rank rank(model, setup, order, num_microbatches);
  for (int step = 0; step < 3; ++step) {
    const StepResult result = rank.step(step);
    trail.losses.push_back(result.loss_sum);
    trail.grad_norms.push_back(result.update.grad_norm);
    trail.router_losses.insert(trail.router_losses.end(), result.router_losses.begin(),
                               result.router_losses.end());
    EXPECT_FALSE(result.update.skipped);
    EXPECT_EQ(result.valid_tokens, num_microbatches * (kSeqLen - 1));
  }
  trail.weights = rank.weights();
  EXPECT_EQ(rank.measured_peak(), rank.plan().peak_bytes);
  return trail;
}

void expect_same_bits(const std::map<std::string, std::vector<float>>& a,
                      const std::map<std::string, std::vector<float>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) {
    EXPECT_EQ(std::memcmp(values.data(), b.at(name).data(), values.size() * sizeof(float)), 0)
        << name;
  }
}

void expect_same_bits(const Trail& a, const Trail& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.grad_norms, b.grad_norms);
  EXPECT_EQ(a.router_losses, b.router_losses);
  expect_same_bits(a.first_grads, b.first_grads);
  expect_same_bits(a.weights, b.weights);
}

Program order_of(const char* kind, int num_microbatches) {
  return make_schedule(kind, {1, num_microbatches, 1})->programs[0];
}

// Any order in which every micro-batch passes through F, B and W.
Program random_order(unsigned seed, int num_microbatches) {
  std::mt19937 random(seed);
  std::vector<int> progress(num_microbatches, 0);
  Program program;
  while (program.size() < size_t(3 * num_microbatches)) {
    const int k = int(random() % unsigned(num_microbatches));
    if (progress[k] == 3) continue;
    constexpr ActionKind kPhases[] = {ActionKind::F, ActionKind::B, ActionKind::W};
    program.push_back({.kind = kPhases[progress[k]++], .microbatch = k});
  }
  return program;
}

RankSetup varied(RankSetup setup, int variation) {
  constexpr Recompute kRecompute[] = {Recompute::Full, Recompute::None, Recompute::Selective};
  constexpr int kThreads[] = {2, 4, 1};
  setup.recompute = kRecompute[variation % 3];
  setup.num_threads = kThreads[variation % 3];
  return setup;
}

std::vector<const KernelTable*> all_kernels() {
  std::vector<const KernelTable*> tables = {&reference_kernels()};
  for (const Isa isa : supported_isas()) tables.push_back(&cpu_kernels(isa));
  return tables;
}

// Returns every model with the kernels of the newest instruction set, and one model with the
// reference kernels and with those of each older set. With `all` every set takes every model.
std::vector<std::pair<const KernelTable*, const char*>> kernels_and_models(bool all) {
  std::vector<std::pair<const KernelTable*, const char*>> chosen;
  for (const KernelTable* kernels : all_kernels()) {
    for (const char* name : kModels) {
      const bool is_newest = kernels == all_kernels().back();
      if (all || is_newest || name == kModels[1]) chosen.emplace_back(kernels, name);
    }
  }
  return chosen;
}

void expect_the_same_bits_in_every_order(bool all) {
  for (const auto& [kernels, name] : kernels_and_models(all)) {
    for (const DType compute : {DType::F32, DType::BF16}) {
      for (const int m : {1, 2, 5}) {
        const RankSetup setup{.kernels = kernels, .compute = compute};
        const ModelSpec model = model_of(name);
        const Trail base = run(model, setup, order_of("1f1b", m), m);
        int variation = 0;
        for (const char* kind : {"gpipe", "zb_h1", "zb_h2", "naive"}) {
          SCOPED_TRACE(
              fmt::format("{} {} {} m {} {}", kernels->name, name_of(compute), name, m, kind));
          expect_same_bits(run(model, varied(setup, variation++), order_of(kind, m), m), base);
        }
        for (unsigned seed = 0; seed < 3; ++seed) {
          const Program order = random_order(seed, m);
          SCOPED_TRACE(fmt::format("{} {} {} {}", kernels->name, name_of(compute), name,
                                   to_string(order, 1)));
          expect_same_bits(run(model, varied(setup, variation++), order, m), base);
        }
      }
    }
  }
}

TEST(Executor, InLayoutModeNoOrderRecomputationOrThreadChangesABit) {
  expect_the_same_bits_in_every_order(false);
}

void expect_repeated_bits_in_fixed_mode(bool all) {
  for (const auto& [kernels, name] : kernels_and_models(all)) {
    for (const DType compute : {DType::F32, DType::BF16}) {
      RankSetup setup{.kernels = kernels, .compute = compute};
      setup.mode = AccumulateMode::Fixed;
      const ModelSpec model = model_of(name);
      const Trail base = run(model, setup, order_of("1f1b", 3), 3);
      for (int variation = 0; variation < 3; ++variation) {
        SCOPED_TRACE(fmt::format("{} {} {} {}", kernels->name, name_of(compute), name, variation));
        expect_same_bits(run(model, varied(setup, variation), order_of("1f1b", 3), 3), base);
      }
      // zb_h1 of one rank keeps the order of W: the split itself changes nothing either.
      expect_same_bits(run(model, setup, order_of("zb_h1", 3), 3), base);
    }
  }
}

TEST(Executor, InFixedModeARunRepeatsItselfAndRecomputationChangesNoBit) {
  expect_repeated_bits_in_fixed_mode(false);
}

TEST(ExecutorInFull, DISABLED_EveryModelWithEveryInstructionSet) {
  expect_the_same_bits_in_every_order(true);
  expect_repeated_bits_in_fixed_mode(true);
}

TEST(Executor, LossesAreSummedAlongTheTree) {
  EXPECT_EQ(tree_sum({}), 0.0);
  EXPECT_EQ(tree_sum(std::vector<double>{3.0}), 3.0);
  const std::vector<double> leaves = {1e16, 1.0, -1e16, 1.0, 1.0, 0.5};
  EXPECT_EQ(tree_sum(leaves), ((1e16 + 1.0) + (-1e16 + 1.0)) + (1.0 + 0.5));
}

TEST(Executor, StepsLowerTheLoss) {
  for (const KernelTable* kernels : all_kernels()) {
    for (const DType compute : {DType::F32, DType::BF16}) {
      Rank rank(model_of("llama"), {.kernels = kernels, .compute = compute}, order_of("1f1b", 4),
                4);
      const double first = rank.step(0).loss_sum;
      double last = first;
      for (int step = 0; step < 30; ++step) last = rank.step(0).loss_sum;
      EXPECT_LT(last, 0.5 * first) << kernels->name;
    }
  }
}

TEST(Executor, TimesOfActionsFollowEachOther) {
  Rank rank(model_of("gpt2"), {}, order_of("zb_h1", 3), 3);
  rank.step(0);
  int64_t end = 0;
  for (const ActionTime& time : rank.executor().action_times()) {
    EXPECT_GE(time.begin_ns, end);
    EXPECT_GE(time.end_ns, time.begin_ns);
    end = time.end_ns;
  }
}

TEST(Executor, ASteadyStepAllocatesNothing) {
#ifdef TRIREME_COUNTS_ALLOCATIONS
  for (const KernelTable* kernels : all_kernels()) {
    if (kernels == &reference_kernels()) continue;  // the oracle may allocate
    for (const DType compute : {DType::F32, DType::BF16}) {
      for (const char* name : kModels) {
        for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
          for (const AccumulateMode mode : {AccumulateMode::Fixed, AccumulateMode::Layout}) {
            for (const int num_threads : {1, 2}) {
              const RankSetup setup{kernels, compute, recompute, num_threads, mode};
              Rank rank(model_of(name), setup, order_of(num_threads == 1 ? "1f1b" : "zb_h1", 3), 3);
              rank.step(0);
              const int64_t before = num_allocations;
              rank.step(1);
              EXPECT_EQ(num_allocations - before, 0)
                  << kernels->name << " " << name_of(compute) << " " << name;
            }
          }
        }
      }
    }
  }
#else
  GTEST_SKIP() << "the sanitizers bring their own allocator";
#endif
}

}  // namespace
}  // namespace trireme
