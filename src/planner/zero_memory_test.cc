#include <gtest/gtest.h>

#include "compile/run_plan.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

// The ZeRO paper counts 16 bytes per parameter in mixed precision: 2 of fp16 weight, 2 of fp16
// gradient, 12 of fp32 state (master weight and two moments).
struct BytesPerParam {
  double param, grad, state;
  double total(int level, double degree) const {
    return param / (level >= 3 ? degree : 1.0) + grad / (level >= 2 ? degree : 1.0) +
           state / (level >= 1 ? degree : 1.0);
  }
};
constexpr BytesPerParam kPaper{2, 2, 12};

// What is kept of a parameter whose weight is bf16, and how a run says so.
struct KeptState {
  BytesPerParam bytes;
  OptimizerKind optimizer = OptimizerKind::AdamW;
  StateChoice grad = StateChoice::Fp32;
  StateChoice moment = StateChoice::Fp32;
  bool master = true;
};
constexpr StateChoice kFp32 = StateChoice::Fp32, kBf16 = StateChoice::Bf16;
constexpr KeptState kStates[] = {{{2, 4, 12}},  // 18 bytes: the default
                                 {{2, 2, 12}, OptimizerKind::AdamW, kBf16},  // 16, as the paper
                                 {{2, 2, 8}, OptimizerKind::AdamW, kBf16, kBf16},         // 12
                                 {{2, 4, 4}, OptimizerKind::AdamW, kFp32, kBf16, false},  // 10
                                 {{2, 2, 4}, OptimizerKind::AdamW, kBf16, kBf16, false},  // 8
                                 {{2, 2, 2}, OptimizerKind::Sgd, kBf16, kBf16, false},    // 6
                                 {{2, 4, 8}, OptimizerKind::AdamW, kFp32, kBf16},
                                 {{2, 2, 8}, OptimizerKind::AdamW, kBf16, kFp32, false}};

// The sizes in the paper's table, in GB per device, of model states only.
TEST(ZeroMemory, TheFormulaGivesThePublishedTable) {
  struct Row {
    int degree;
    double levels[3];
  };
  const Row rows[] = {{1, {120, 120, 120}},      {4, {52.5, 41.3, 30}},
                      {16, {35.6, 21.6, 7.5}},   {64, {31.4, 16.6, 1.88}},
                      {256, {30.4, 15.4, 0.47}}, {1024, {30.1, 15.1, 0.12}}};
  for (const Row& row : rows) {
    for (int level = 1; level <= 3; ++level) {
      EXPECT_NEAR(7.5 * kPaper.total(level, row.degree), row.levels[level - 1], 0.06);
    }
  }
}

RunConfig model_of(int64_t layers, int64_t d_model, int64_t vocab_size, int64_t seq_len) {
  RunConfig config;
  config.model.layers = layers;
  config.model.d_model = d_model;
  config.model.heads = d_model / 128 > 0 ? d_model / 128 : 1;
  config.model.vocab_size = vocab_size;
  config.model.seq_len = seq_len;
  config.precision.compute = ComputeChoice::Bf16;
  config.batch.micro_sequences = 1;
  return config;
}

double class_bytes(const RankPlan& rank, MemoryClass c) {
  return double(rank.memory.class_bytes[int(c)]);
}

// Bytes that a rank stores all the time. Levels 2 and 3 also have slots for the units in use, which
// do not shrink with the degree; they are subtracted.
double stored_bytes(const RankPlan& rank) {
  double bytes = class_bytes(rank, MemoryClass::Params) + class_bytes(rank, MemoryClass::Grads) +
                 class_bytes(rank, MemoryClass::Optimizer);
  const auto slots = [&](const char* name) {
    for (const MemoryRegion& region : rank.memory.regions) {
      const bool is_slot = region.name.rfind(name, 0) == 0;
      if (is_slot) bytes -= double(region.bytes);
    }
  };
  slots("unit_params");
  slots("tied_params");
  slots("unit_grads");
  return bytes;
}

void expect_formula(RunConfig config, const KeptState& kept, int degree, double tolerance) {
  config.optim.name = kept.optimizer;
  config.optim.grad_dtype = kept.grad;
  config.optim.moment_dtype = kept.moment;
  config.optim.master = kept.master;
  SCOPED_TRACE(testing::Message() << kept.bytes.total(0, 1.0) << " bytes per parameter");
  for (int level = 0; level <= 3; ++level) {
    config.parallel.dp = degree;
    config.parallel.zero = level;
    const Result<RunPlan> plan = make_plan(config, {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    double most = 0.0, sum = 0.0;
    for (const RankPlan& rank : rank_plans(*plan)) {
      most = std::max(most, stored_bytes(rank));
      sum += stored_bytes(rank);
    }
    // If leaves are reduced, the two uses of a tied table have a gradient each.
    const double table = double(plan->model.vocab_size * plan->model.d_model);
    const double second_use = level >= 2 && degree > 1 ? kept.bytes.grad * table / degree : 0.0;
    const double wanted = double(plan->num_params) * kept.bytes.total(level, degree) + second_use;
    EXPECT_NEAR(sum / degree / wanted, 1.0, tolerance) << "level " << level << " of " << degree;
    EXPECT_NEAR(most / wanted, 1.0, 6 * tolerance) << "level " << level << " of " << degree;
  }
}

TEST(ZeroMemory, PlansOfThePublishedSizeFollowTheFormulaWithOurBytes) {
  // The paper's model of 7.5 billion parameters.
  const RunConfig config = model_of(36, 4096, 50304, 1024);
  expect_formula(config, kStates[0], 64, 0.004);
  for (const KeptState& kept : kStates) {
    for (const int degree : {1, 4}) expect_formula(config, kept, degree, 0.004);
  }
}

TEST(ZeroMemory, SmallPlansToo) {
  for (const KeptState& kept : kStates) {
    for (const int degree : {1, 2, 4, 8}) {
      expect_formula(model_of(4, 256, 512, 32), kept, degree, 0.02);
    }
  }
}

}  // namespace
}  // namespace trireme
