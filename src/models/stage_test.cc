#include "models/stage.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "graph/layer_keep.h"
#include "models/finite_differences.h"
#include "models/stage_fixture.h"

namespace trireme {
namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_the_same_bits_in_every_way(bool all) {
  for (const auto& [kernels, name] : kernels_and_models(all)) {
    for (const DType compute : {DType::F32, DType::BF16, DType::F16}) {
      const ModelSpec model = model_of(name);
      TestStage base(model, *kernels, compute);
      base.forward();
      base.backward();
      const auto expected = base.all_grads();
      for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
        for (const bool split : {false, true}) {
          const int num_threads = split ? 2 : recompute == Recompute::None ? 4 : 3;
          TestStage stage(model, *kernels, compute, {recompute, split, num_threads});
          stage.forward();
          stage.backward();
          SCOPED_TRACE(fmt::format("{} {} {} recompute {} split {} threads {}", kernels->name,
                                   name_of(compute), name, int(recompute), split, num_threads));
          EXPECT_TRUE(same_bits(stage.losses(), base.losses()));
          for (const auto& [param, grad] : stage.all_grads()) {
            EXPECT_TRUE(same_bits(grad, expected.at(param))) << param;
          }
        }
      }
    }
  }
}

TEST(TransformerStage, RecomputationSplittingAndThreadsChangeNoBit) {
  expect_the_same_bits_in_every_way(false);
}

// Every set of values can be computed again: all sets of a model that has few, else some of them.
TEST(TransformerStage, EverySetOfValuesComputedAgainChangesNoBit) {
  constexpr int kMostSets = 128;
  for (const char* name : kModels) {
    const ModelSpec model = model_of(name);
    TestStage base(model, *all_kernels().back(), DType::F32);
    base.forward();
    base.backward();
    const auto expected = base.all_grads();
    const uint64_t num_sets = all_again(layer_keep(model, base.shape(), 0).fused) + 1;
    const uint64_t step = num_sets / kMostSets | 1;  // odd, so that every value is in some sets
    for (uint64_t again = 0; again < num_sets; again += step) {
      const bool split = std::popcount(again) % 2 == 0;
      SCOPED_TRACE(fmt::format("{} set {:b} split {}", name, again, split));
      TestStage stage(model, *all_kernels().back(), DType::F32,
                      {.recompute = Recompute::Fit, .split_backward = split, .again = again});
      stage.forward();
      stage.backward();
      EXPECT_TRUE(same_bits(stage.losses(), base.losses()));
      for (const auto& [param, grad] : stage.all_grads()) {
        EXPECT_TRUE(same_bits(grad, expected.at(param))) << param;
      }
    }
  }
}

// A set of nothing needs the tables of `none`, a set of everything those of `full`.
TEST(TransformerStage, TheEmptySetAndTheWholeSetHaveTheTablesOfNoneAndFull) {
  for (const char* name : kModels) {
    const ModelSpec model = model_of(name);
    for (const bool split : {false, true}) {
      const auto bytes = [&](Recompute recompute, uint64_t again) {
        const StageTables tables =
            stage_tables(model, whole_model(model),
                         {.recompute = recompute, .split_backward = split, .again = again});
        return std::array{tables.saved.bytes(), tables.weight_grad.bytes(), tables.scratch.bytes()};
      };
      EXPECT_EQ(bytes(Recompute::Fit, 0), bytes(Recompute::None, 0)) << name;
      EXPECT_EQ(bytes(Recompute::Fit, kEverythingAgain), bytes(Recompute::Full, 0)) << name;
    }
  }
}

void expect_doubled_gradients(bool all) {
  for (const auto& [kernels, name] : kernels_and_models(all)) {
    for (const bool apart : {false, true}) {
      TestStage stage(model_of(name), *kernels, DType::F32, {.tied_use_apart = apart});
      stage.forward();
      stage.backward(Write::Overwrite);
      const auto once = stage.all_grads();
      stage.backward(Write::Accumulate);
      for (const auto& [param, twice] : stage.all_grads()) {
        for (size_t i = 0; i < twice.size(); ++i) {
          const float expected = 2.0f * once.at(param)[i];
          ASSERT_NEAR(twice[i], expected, 2e-4f + 1e-4f * std::abs(expected))
              << kernels->name << " " << name << " " << param << " " << i;
        }
      }
    }
  }
}

TEST(TransformerStage, AccumulatingTwiceDoublesTheGradient) { expect_doubled_gradients(false); }

TEST(TransformerStage, ATiedTableHasTheSumOfItsTwoUses) {
  for (const KernelTable* kernels : all_kernels()) {
    const ModelSpec model = model_of("gpt2_tied");
    TestStage together(model, *kernels, DType::F32);
    TestStage apart(model, *kernels, DType::F32, {.tied_use_apart = true});
    for (TestStage* stage : {&together, &apart}) {
      stage->forward();
      stage->backward();
    }
    for (const ParamSpec& param : param_table(model, whole_model(model))) {
      const std::vector<float> a = together.grad(param.name), b = apart.grad(param.name);
      if (param.name != "embedding.tokens") {
        EXPECT_TRUE(same_bits(a, b)) << param.name;
        continue;
      }
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << i;
    }
  }
}

TEST(TransformerStage, EvaluationIsTheModelWithoutDropout) {
  for (const KernelTable* kernels : all_kernels()) {
    ModelSpec model = model_of("gpt2_dropout_tied");
    TestStage with_dropout(model, *kernels, DType::F32);
    model.dropout = 0.0;
    TestStage without(model, *kernels, DType::F32);
    const double in_training = with_dropout.forward(true);
    with_dropout.forward(false);
    without.forward(true);
    EXPECT_TRUE(same_bits(with_dropout.losses(), without.losses())) << kernels->name;
    double evaluated = 0.0;
    for (const float loss : without.losses()) evaluated += loss;
    EXPECT_NE(in_training, evaluated);
  }
}

void expect_slopes(bool all) {
  for (const auto& [kernels, name] : kernels_and_models(all)) {
    SCOPED_TRACE(fmt::format("{} {}", kernels->name, name));
    ModelSpec model = model_of(name);
    model.aux_loss = model.z_loss = 0.0;  // no parts of the loss that is read
    model.top_k = model.experts;          // a step would send tokens elsewhere
    model.expert_groups = model.top_groups = 1;
    TestStage stage(model, *kernels, DType::F32);
    expect_gradients_are_slopes(stage, model);
  }
}

TEST(TransformerStage, GradientsAreSlopesOfTheLoss) { expect_slopes(false); }

TEST(TransformerStageInFull, DISABLED_EveryModelWithEveryInstructionSet) {
  expect_the_same_bits_in_every_way(true);
  expect_doubled_gradients(true);
  expect_slopes(true);
}

}  // namespace
}  // namespace trireme
